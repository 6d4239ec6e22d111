"""A server that only gives the bytes of a file back: one Starlette route. It shows what HTTP itself costs."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def application(body: bytes) -> Starlette:
    """Reads the body of the request and answers with these bytes."""

    async def same(request: Request) -> Response:
        await request.body()
        return Response(body, media_type="application/json")

    return Starlette(routes=[Route("/same", same, methods=["POST"])])


def main() -> None:
    """`bare_route FILE`: serve on a free port and print it."""
    body = Path(sys.argv[1]).read_bytes()
    place = socket.create_server(("127.0.0.1", 0))
    print(place.getsockname()[1], flush=True)
    config = uvicorn.Config(application(body), loop="uvloop", http="httptools", log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[place])


if __name__ == "__main__":
    main()
