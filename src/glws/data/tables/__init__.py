"""Own data: tables in CSV, parquet, npz or HDF5, described by a short YAML."""

from glws.data.tables._description import BlockDescription as BlockDescription
from glws.data.tables._description import Description as Description
from glws.data.tables._description import plain_description as plain_description
from glws.data.tables._description import read_description as read_description
from glws.data.tables._encoded import EncodedInstances as EncodedInstances
from glws.data.tables._encoded import schema_scaling as schema_scaling
from glws.data.tables._frames import column_names as column_names
from glws.data.tables._frames import is_frame as is_frame
from glws.data.tables._hashing import DataHash as DataHash
from glws.data.tables._hashing import description_hash as description_hash
from glws.data.tables._reading import frame_features as frame_features
from glws.data.tables._reading import read_table as read_table
from glws.data.tables._reading import table as table
from glws.data.tables._schema import Coded as Coded
from glws.data.tables._schema import Column as Column
from glws.data.tables._schema import Schema as Schema
from glws.data.tables._stream import Piece as Piece
from glws.data.tables._stream import TableStream as TableStream
from glws.data.tables._stream import file_hash as file_hash
from glws.data.tables._stream import open_stream as open_stream
from glws.data.tables._stream import read_frame as read_frame
from glws.data.tables._table import Table as Table
from glws.data.tables._table import WeakBlock as WeakBlock
from glws.data.tables._votes_file import VoteTable as VoteTable
from glws.data.tables._votes_file import read_votes as read_votes
