"""The public names of the package: what is imported here is loaded when it is first used."""

from streamlet.spark.cluster.session import session as session
from streamlet.spark.cluster.session import stop as stop
from streamlet.spark.query import start as start
from streamlet.spark.query import to_dataframe as to_dataframe
from streamlet.spark.sql.frame_columns import FrameSource as FrameSource
from streamlet.spark.sql.typed_columns import typed as typed
