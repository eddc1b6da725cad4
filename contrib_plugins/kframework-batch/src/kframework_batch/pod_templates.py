"""Templates of pods, including fields that no scheduler reads: they are copied to the pods."""

from __future__ import annotations

import msgspec

from kframework.objects import (
    ApiStruct,
    Container,
    ObjectMeta,
    OpaqueSource,
    PodSpec,
    RawQuantity,
    Volume,
)

#: A part of a template that is not decoded.
Whole = dict[str, object]


class EnvVar(ApiStruct, frozen=True, kw_only=True):
    """A variable of a container, and its value or where that comes from."""

    name: str = ""
    value: str = ""
    value_from: Whole | None = None


class VolumeMount(ApiStruct, frozen=True, kw_only=True):
    """The path of a volume within a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    mount_propagation: str | None = None


class TemplateContainer(Container, frozen=True, kw_only=True):
    """A container with what it runs."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[Whole, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    image_pull_policy: str = ""
    lifecycle: Whole | None = None
    liveness_probe: Whole | None = None
    readiness_probe: Whole | None = None
    startup_probe: Whole | None = None
    security_context: Whole | None = None
    stdin: bool = False
    tty: bool = False


class KeyToPath(ApiStruct, frozen=True, kw_only=True):
    """A key of a ConfigMap or Secret, and the file that it becomes."""

    key: str = ""
    path: str = ""
    mode: int | None = None


class ConfigMapSource(OpaqueSource, frozen=True, kw_only=True):
    """The ConfigMap that a volume shows."""

    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


class SecretSource(OpaqueSource, frozen=True, kw_only=True):
    """The Secret that a volume shows."""

    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    optional: bool | None = None


class EmptyDirSource(OpaqueSource, frozen=True, kw_only=True):
    """A folder that lives as long as the pod."""

    medium: str = ""
    size_limit: RawQuantity | None = None


class HostPathSource(OpaqueSource, frozen=True, kw_only=True):
    """A file or folder of the node."""

    path: str = ""
    type: str | None = None


class NFSSource(OpaqueSource, frozen=True, kw_only=True):
    """A folder that an NFS server exports."""

    server: str = ""
    path: str = ""
    read_only: bool = False


class TemplateVolume(Volume, frozen=True, kw_only=True):
    """A volume with what is in it."""

    config_map: ConfigMapSource | None = None
    secret: SecretSource | None = None
    empty_dir: EmptyDirSource | None = None
    host_path: HostPathSource | None = None
    nfs: NFSSource | None = None


class TemplatePodSpec(PodSpec, frozen=True, kw_only=True):
    """The `spec` of a pod with what its containers run."""

    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] = ()
    volumes: tuple[TemplateVolume, ...] = ()
    subdomain: str = ""
    dns_policy: str = ""
    dns_config: Whole | None = None
    security_context: Whole | None = None
    image_pull_secrets: tuple[Whole, ...] = ()
    host_aliases: tuple[Whole, ...] = ()


class PodTemplateSpec(ApiStruct, frozen=True, kw_only=True):
    """The template of a task's pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TemplatePodSpec = TemplatePodSpec()


def template_spec(spec: PodSpec) -> TemplatePodSpec:
    return msgspec.convert(msgspec.to_builtins(spec), TemplatePodSpec)
