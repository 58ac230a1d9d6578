"""`download`: fetch an official data set over https, verified and atomic."""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from glws._files import sync_folder
from glws._optional import needed
from glws.data.sources._archives import unpack
from glws.data.sources._bundled import BUNDLED
from glws.data.sources._catalog import check_name
from glws.data.sources._files import CHUNK, check_file, compare_digest, data_folder, hasher_of, write_checksums
from glws.data.sources._official import OFFICIAL_SETS, Download, OfficialSet
from glws.data.sources._official_formats import load_official
from glws.errors import DataError

Opener = Callable[[str], Any]
"""Opens an address as a context manager with `read(size)`."""
Advance = Callable[[int], None]
TIMEOUT = 30.0


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            raise urllib.error.URLError(f"it leads to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def open_https(url: str) -> Any:
    """The response to a request over https, including redirects; other protocols are refused."""
    if not url.startswith("https://"):
        raise DataError(f"{url}: only https is used")
    request = urllib.request.Request(url, headers={"User-Agent": "glws"})
    return urllib.request.build_opener(_OnlyHttps).open(request, timeout=TIMEOUT)


def download(
    name: str, folder: str | os.PathLike[str] | None = None, progress: bool = True, opener: Opener = open_https
) -> Path:
    """Fetch a data set into the data folder and return the folder of its files.

    Valid files are not fetched again; an archive that you put into the data folder is used, and kept. Every file is
    checked against its published checksum before it gets its name, so a broken connection, a full disk or a killed
    process leaves no partial files. Sets of scikit-learn need no download; ImageNet-100 cannot be downloaded.
    """
    check_name(name)
    if name in BUNDLED:
        raise DataError(f"{name} comes with scikit-learn: there is nothing to download")
    if name not in OFFICIAL_SETS:
        raise DataError(f"{name} is made from ImageNet, which cannot be downloaded without its owners' permission")
    return download_official(OFFICIAL_SETS[name], data_folder(folder), progress, opener)


def download_official(wanted: OfficialSet, folder: Path, progress: bool, opener: Opener) -> Path:
    """`download` for a described set."""
    home = folder / wanted.folders[0]
    if _is_sound(wanted, folder):
        return home
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_space(wanted, folder)
        for item in wanted.downloads:
            if item.archived_folder is None:
                home.mkdir(exist_ok=True)
                _fetch_file(item, home, progress, opener)
            else:
                _fetch_archive(wanted, item, folder, progress, opener)
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror or error}") from error
    return home


def _is_sound(wanted: OfficialSet, folder: Path) -> bool:
    if not (folder / wanted.folders[0]).is_dir():
        return False
    try:
        return not load_official(wanted, folder).unverified
    except DataError:
        return False


def _check_space(wanted: OfficialSet, folder: Path) -> None:
    is_archive = any(item.archived_folder for item in wanted.downloads)
    size = sum(item.size for item in wanted.downloads) + is_archive * sum(file.size for file in wanted.files)
    free = shutil.disk_usage(folder).free
    if free < size:
        raise DataError(f"{wanted.name} needs {size / 1e9:.1f} GB in {folder}, where {free / 1e9:.1f} GB are free")


def _fetch_file(item: Download, home: Path, progress: bool, opener: Opener) -> None:
    target = home / item.name
    if target.is_file() and _matches(target, item):
        return
    with _fetched(item, home, progress, opener) as path:
        os.replace(path, target)
        sync_folder(home)


def _fetch_archive(wanted: OfficialSet, item: Download, folder: Path, progress: bool, opener: Opener) -> None:
    present = folder / item.name
    if present.is_file() and _matches(present, item):
        _unpack_set(wanted, item, present, folder)
        return
    with _fetched(item, folder, progress, opener) as path:
        _unpack_set(wanted, item, path, folder)


def _matches(path: Path, item: Download) -> bool:
    try:
        check_file(path, item.size, item.digest)
    except DataError:
        return False
    return True


def _unpack_set(wanted: OfficialSet, item: Download, archive: Path, folder: Path) -> None:
    """Unpack beside the final place, check every file, then rename."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as name:
        unpack(archive, Path(name), sum(file.size for file in wanted.files))
        home = Path(name) / str(item.archived_folder)
        for file in wanted.files:
            if not (home / file.name).is_file():
                raise DataError(f"{item.name}: {item.archived_folder}/{file.name} is not in the archive")
            check_file(home / file.name, file.size, file.digest)
        write_checksums(home, [file.name for file in wanted.files if file.digest is None])
        for path in home.iterdir():
            _sync(path)
        if not _is_sound(wanted, folder):  # unless another process was faster
            _move(home, folder / wanted.folders[0])
    sync_folder(folder)


def _move(home: Path, target: Path) -> None:
    """Rename a folder; an invalid one at the target is renamed too."""
    if target.exists():
        aside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}-unsound-"))
        os.replace(target, aside)
    os.replace(home, target)


@contextmanager
def _fetched(item: Download, folder: Path, progress: bool, opener: Opener) -> Iterator[Path]:
    """The file under a temporary name in `folder`, complete and checked, from the first address that works."""
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{item.name}-")
    try:
        with os.fdopen(handle, "wb") as file, _progress_bar(item, progress) as advance:
            _fetch_from_any(item, file, opener, advance)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _fetch_from_any(item: Download, file: IO[bytes], opener: Opener, advance: Callable[[int], None]) -> None:
    reasons = []
    for url in item.urls:
        file.seek(0)
        file.truncate()
        try:
            return _fetch_from(url, item, file, opener, advance)
        except (urllib.error.URLError, HTTPException, ConnectionError, TimeoutError, DataError) as error:
            reasons.append(f"{url}: {_reason(error)}")
    raise DataError(f"{item.name} could not be downloaded: {'; '.join(reasons)}")


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "reason", None) or error or type(error).__name__).split())


def _fetch_from(url: str, item: Download, file: IO[bytes], opener: Opener, advance: Callable[[int], None]) -> None:
    found, size = hasher_of(item.digest), 0
    with opener(url) as response:
        while chunk := response.read(CHUNK):
            size += len(chunk)
            if size > item.size:
                raise DataError(f"it gives more than the {item.size:,} bytes of {item.name}")
            found.update(chunk)
            file.write(chunk)
            advance(size)
    if size < item.size:
        raise DataError(f"it gave {size:,} of {item.size:,} bytes")
    compare_digest(item.name, found.hexdigest(), item.digest)


@contextmanager
def _progress_bar(item: Download, wanted: bool) -> Iterator[Advance]:
    """A function for the number of received bytes; with a progress bar on stderr if wanted."""
    if not wanted:
        yield lambda size: None
        return
    bars, console = needed("rich.progress", "rich", "a progress bar"), needed("rich.console", "rich", "a progress bar")
    columns = (bars.TextColumn(item.name), bars.BarColumn(), bars.DownloadColumn(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=console.Console(stderr=True)) as bar:
        task = bar.add_task(item.name, total=item.size)
        yield lambda size: bar.update(task, completed=size)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
