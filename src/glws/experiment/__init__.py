"""Jobs: from a configuration to a run folder with a trained network, its scores, its report; and what uses a run."""

from glws.experiment._config import DataConfig as DataConfig
from glws.experiment._config import JobConfig as JobConfig
from glws.experiment._config import NamedConfig as NamedConfig
from glws.experiment._config import config_of as config_of
from glws.experiment._config import read_config as read_config
from glws.experiment._content import store_input as store_input
from glws.experiment._content import stored_content as stored_content
from glws.experiment._data import JobData as JobData
from glws.experiment._data import job_data as job_data
from glws.experiment._job import REPORT as REPORT
from glws.experiment._job import SCALING as SCALING
from glws.experiment._job import Job as Job
from glws.experiment._job import Outcome as Outcome
from glws.experiment._job import resumed as resumed
from glws.experiment._job import usual_folder as usual_folder
from glws.experiment._labels import posterior_labels as posterior_labels
from glws.experiment._labels import predictions as predictions
from glws.experiment._model import job_model as job_model
from glws.experiment._model import usual_model as usual_model
from glws.experiment._model import usual_views as usual_views
from glws.experiment._words import learned_from as learned_from
