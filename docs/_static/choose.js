// Asks what a person knows about labels, and shows the kind, the YAML and the Python. No network, no libraries.
(function () {
  "use strict";
  const place = document.getElementById("choose");
  if (!place) return;
  const { questions, answers } = JSON.parse(document.getElementById("choices").textContent);

  function element(tag, text, attributes) {
    const made = document.createElement(tag);
    if (text) made.textContent = text;
    Object.entries(attributes || {}).forEach(([name, value]) => made.setAttribute(name, value));
    return made;
  }

  function removeAfter(step) {
    while (step.nextSibling) step.nextSibling.remove();
  }

  function ask(name) {
    const step = element("fieldset", "", { class: "choose-step" });
    step.append(element("legend", questions[name].text));
    Object.entries(questions[name].options).forEach(([text, next]) => {
      const label = element("label");
      const button = element("input", "", { type: "radio", name: "choose-" + name });
      button.addEventListener("change", () => {
        removeAfter(step);
        if (questions[next]) ask(next);
        else answer(next);
      });
      label.append(button, " " + text);
      step.append(label);
    });
    place.append(step);
  }

  function code(title, text) {
    const box = element("div");
    box.append(element("h3", title));
    const block = element("pre", "", { tabindex: "0" });
    block.append(element("code", text));
    box.append(block);
    return box;
  }

  function answer(name) {
    const found = answers[name];
    const box = element("section", "", { class: "choose-answer", "aria-live": "polite" });
    box.append(element("h2", "Use " + found.kind));
    const head = "data: table.csv\nfeatures: f*\nclasses: [negative, positive]\n";
    box.append(code("In a file beside your table", head + found.weak));
    box.append(code("In Python", found.python));
    place.append(box);
    box.scrollIntoView({ block: "nearest" });
  }

  ask("about");
})();
