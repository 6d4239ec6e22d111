"""Makes the methods of the remote classes out of flows: each verb is described once, for callers that wait and for
coroutines. A method has the arguments and the docstring of its flow."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from omnigraph.client.wire_call import Flow
from omnigraph.errors import NotOffered

P = ParamSpec("P")
T = TypeVar("T")


def verb(flow: Callable[P, Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """A method that carries out a flow by the connection of its object."""

    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._connection.run(flow(*args, **kwargs))
        return result

    _dress(method, flow)
    return method


def async_verb(flow: Callable[P, Flow[T]]) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """The same as a coroutine."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self._connection.run(flow(*args, **kwargs))
        return result

    _dress(method, flow)
    return method


def not_offered(name: str, instead: str = "open the graph by its storage address") -> Callable[..., NoReturn]:
    """A method that a server does not offer."""

    def method(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(name, instead)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"Not offered behind a server; {instead}."
    return method


def refusal(name: str, instead: str = "open the graph by its storage address") -> NotOffered:
    """The error for what a server does not offer."""
    return NotOffered(f"{name} works on the storage of a graph, not on one behind a server", hint=instead, verb=name)


def _dress(method: Any, flow: Callable[..., Any]) -> None:
    method.__name__ = method.__qualname__ = flow.__name__
    method.__doc__ = flow.__doc__
    method.__module__ = flow.__module__
    method.__annotations__ = dict(flow.__annotations__)
    signature = inspect.signature(flow)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    method.__signature__ = signature.replace(parameters=[own, *signature.parameters.values()])
