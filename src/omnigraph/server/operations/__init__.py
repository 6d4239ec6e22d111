"""Every route below a graph, as one tuple."""

from __future__ import annotations

from omnigraph.server.operation import HttpOperation
from omnigraph.server.operations.blob_routes import BLOB_ROUTES
from omnigraph.server.operations.branch_routes import BRANCH_ROUTES
from omnigraph.server.operations.commit_routes import COMMIT_ROUTES
from omnigraph.server.operations.export_routes import EXPORT_ROUTES
from omnigraph.server.operations.feed_routes import FEED_ROUTES
from omnigraph.server.operations.load_routes import LOAD_ROUTES
from omnigraph.server.operations.mutation_routes import MUTATION_ROUTES
from omnigraph.server.operations.parts_route import PARTS_ROUTES
from omnigraph.server.operations.query_routes import QUERY_ROUTES
from omnigraph.server.operations.schema_routes import SCHEMA_ROUTES
from omnigraph.server.operations.state_routes import STATE_ROUTES
from omnigraph.server.operations.stored_routes import STORED_ROUTES
from omnigraph.server.operations.tag_routes import TAG_ROUTES

OPERATIONS: tuple[HttpOperation, ...] = (
    *STATE_ROUTES,
    *QUERY_ROUTES,
    *STORED_ROUTES,
    *EXPORT_ROUTES,
    *BLOB_ROUTES,
    *MUTATION_ROUTES,
    *LOAD_ROUTES,
    *PARTS_ROUTES,
    *SCHEMA_ROUTES,
    *BRANCH_ROUTES,
    *TAG_ROUTES,
    *COMMIT_ROUTES,
    *FEED_ROUTES,
)
