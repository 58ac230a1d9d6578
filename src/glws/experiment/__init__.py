"""`Experiment`: data, network, method and options; from a configuration to a finished run that predicts and labels."""

from glws.experiment._answering import PieceWorker as PieceWorker
from glws.experiment._answering import Question as Question
from glws.experiment._candidates_section import in_one_line as in_one_line
from glws.experiment._config import DataConfig as DataConfig
from glws.experiment._config import ExperimentConfig as ExperimentConfig
from glws.experiment._config import MethodConfig as MethodConfig
from glws.experiment._config import NamedConfig as NamedConfig
from glws.experiment._config import config_of as config_of
from glws.experiment._config import read_config as read_config
from glws.experiment._data import ExperimentData as ExperimentData
from glws.experiment._data import experiment_data as experiment_data
from glws.experiment._experiment import REPORT as REPORT
from glws.experiment._experiment import SCALING as SCALING
from glws.experiment._experiment import Experiment as Experiment
from glws.experiment._experiment import Outcome as Outcome
from glws.experiment._experiment import usual_folder as usual_folder
from glws.experiment._finished_run import FinishedRun as FinishedRun
from glws.experiment._group_answer import GroupAnswer as GroupAnswer
from glws.experiment._labeler import Labeler as Labeler
from glws.experiment._model import experiment_model as experiment_model
from glws.experiment._model import usual_model as usual_model
from glws.experiment._model import usual_views as usual_views
from glws.experiment._parts import write_answers as write_answers
from glws.experiment._ray import on_ray as on_ray
from glws.experiment._words import learned_from as learned_from
