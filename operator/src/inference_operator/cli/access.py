"""The cluster behind a kubeconfig: what the commands read, and one sentence for each way to fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from ..adapters.plain import Context, UserClient
from ..adapters.resources import RESOURCES
from ..api import names
from ..planner.catalogue import nearest
from ..ports import KubeError, NotFound, Object
from .errors import PluginError
from .options import Scope
from .text import one_line

USER_AGENT: Final = "kubectl-inference"
#: Requests to gateways at once.
_PARALLEL: Final = 16


class Session:
    """One connection; `namespace` is the one that the command is about, None = all of them."""

    def __init__(self, client: UserClient, scope: Scope) -> None:
        self.client = client
        self.context = client.context
        self.namespace = None if scope.all_namespaces else scope.namespace or client.context.namespace

    @property
    def own_namespace(self) -> str:
        """The namespace of a command that names one cluster."""
        return self.namespace or self.context.namespace

    async def clusters(self) -> list[Object]:
        """Every InferenceCluster in scope, by namespace and name."""
        with self.sentences(crd=True):
            found = await self.client.list(names.KIND, namespace=self.namespace)
        return sorted(found, key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]))

    async def cluster(self, name: str) -> Object:
        """The InferenceCluster; PluginError names the nearest one when there is none of that name."""
        with self.sentences():
            found = await self.client.get(names.KIND, self.own_namespace, name)
        if found is None:
            raise await self._unknown(name)
        return found

    async def pods(self, namespace: str | None, cluster: str | None, component: str = "") -> list[Object]:
        """Pods of one cluster, or (None) of all, by name; of one component, or of both."""
        labels = [f"{names.LABEL_CLUSTER}={cluster}" if cluster else names.LABEL_CLUSTER]
        labels += [f"{names.LABEL_COMPONENT}={component}"] if component else [names.LABEL_COMPONENT]
        with self.sentences():
            found = await self.client.list("Pod", namespace=namespace, label_selector=",".join(labels))
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    async def agents(self, pods: Sequence[Object]) -> list[Object | None]:
        """`/state` of each gateway pod's agent, through the API server's proxy; None = it doesn't answer.

        Raises PluginError when this person may not ask any of them.
        """
        limit = asyncio.Semaphore(_PARALLEL)

        async def ask(pod: Object) -> Object | KubeError:
            async with limit:
                try:
                    return await self.client.read(
                        _agent_path(pod), f"get /state of {pod['metadata']['name']}"
                    )
                except KubeError as error:
                    return error

        found = await asyncio.gather(*map(ask, pods))
        refused = next((e for e in found if isinstance(e, KubeError) and e.status in (401, 403)), None)
        if refused is not None:
            raise explained(refused, self.context)
        return [None if isinstance(answer, KubeError) else answer for answer in found]

    @contextmanager
    def sentences(self, *, crd: bool = False) -> Iterator[None]:
        """Turn a KubeError into its sentence. `crd`: the request was for InferenceClusters as such, so a 404
        means that their definition is missing."""
        try:
            yield
        except KubeError as error:
            raise explained(error, self.context, crd=crd) from error

    async def _unknown(self, name: str) -> PluginError:
        """A wrong namespace is the commonest reason, so all are looked through where that is allowed."""
        namespace = self.own_namespace
        try:
            found = await self.client.list(names.KIND)
        except NotFound as error:
            return explained(error, self.context, crd=True)
        except KubeError:
            with self.sentences(crd=True):
                found = await self.client.list(names.KIND, namespace=namespace)
        here = [o["metadata"]["name"] for o in found if o["metadata"]["namespace"] == namespace]
        elsewhere = [o["metadata"]["namespace"] for o in found if o["metadata"]["name"] == name]
        text = f"InferenceCluster {namespace}/{name} doesn't exist in context {self.context.name}"
        near = nearest(name, here)
        if elsewhere:
            return PluginError(f"{text}: there is one in namespace {elsewhere[0]}: add -n {elsewhere[0]}")
        if near:
            return PluginError(f"{text}: did you mean {near[0]}?")
        return PluginError(f"{text}: kubectl inference status -A lists those that do")


@asynccontextmanager
async def connected(scope: Scope) -> AsyncIterator[Session]:
    """A session for one command."""
    try:
        client = await UserClient.login(
            kubeconfig=scope.kubeconfig, context=scope.context, user_agent=USER_AGENT
        )
    except KubeError as error:
        raise PluginError(one_line(str(error))) from error
    try:
        yield Session(client, scope)
    finally:
        await client.close()


def explained(error: KubeError, context: Context, *, crd: bool = False) -> PluginError:
    """The sentence for a failed request."""
    where = f"the API server of context {context.name} ({context.server})"
    why = one_line(str(error))
    if error.status is None:
        reason = why.rpartition("no answer from the API server: ")[2]
        return PluginError(
            f"no answer from {where}: {reason}: check the network or VPN, and that kubectl version answers"
        )
    if error.status == 401:
        return PluginError(
            f"{where} doesn't accept these credentials: log in again, or choose another --context"
        )
    if error.status == 403:
        return PluginError(
            f"no right for this at {where}: {why}: ask for it (kubectl inference --help lists the rights), "
            "or choose another -n or --context"
        )
    if error.status == 404 and crd:
        return PluginError(
            f"{where} doesn't know InferenceClusters: the operator's CRD isn't installed there: choose "
            "another --context, or install the operator's Helm chart"
        )
    return PluginError(f"{where} refused a request: {why}: see kubectl get --raw /readyz, and try again")


def _agent_path(pod: Object) -> str:
    name = f"{pod['metadata']['name']}:{names.AGENT_PORT}"
    return RESOURCES["Pod"].path(pod["metadata"]["namespace"], name, "proxy/state")
