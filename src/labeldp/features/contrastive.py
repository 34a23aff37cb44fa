"""Features learned by contrast, from the public images alone: they use no label and cost no privacy.

Several random crops of an image should have similar projections z, those of other images should not (decoupled contrastive
learning, Yeh et al. 2022; unit vectors, temperature τ = 0.2):

    loss(z) = −mean over the other views z⁺ of z·z⁺/τ + log Σ over all views z⁻ of other images of exp(z·z⁻/τ)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from labeldp.errors import FileFormatError, InputError
from labeldp.features.patches import check_images
from labeldp.features.views import random_views, view_size
from labeldp.files.atomic import place_file
from labeldp.machine import choose_device, choose_dtype, encode
from labeldp.models.fast import WIDTHS, FastNet

_TEMPERATURE = 0.2
_KIND = "labeldp-contrastive-1"
_MOST_FLOP = 10**30  # beyond, no summary could say it
_SMALLEST = 16  # pixels: a crop of three quarters must survive three poolings


@dataclass(frozen=True)
class ContrastiveFeaturizer:
    """A frozen network: images (n, channels, height, width) of bytes to `width` numbers each, averaged over both mirror images."""

    model: str
    network: FastNet
    mean: Tensor
    scale: Tensor
    shape: tuple[int, ...]
    losses: tuple[float, ...]
    flop: int

    @property
    def width(self) -> int:
        """Numbers a row."""
        return self.network.width

    @torch.no_grad()
    def transform(self, images: npt.NDArray[np.uint8], *, batch: int = 500) -> npt.NDArray[np.float32]:
        """The features of any images of the kind that was learned from; each depends on its own image only."""
        check_images(images, self.shape)
        self.network.eval()
        device = self.network.head.weight.device
        mean, scale = self.mean.to(device), self.scale.to(device)
        features = np.empty((len(images), self.width), np.float32)
        for start in range(0, len(images), batch):
            x = (torch.from_numpy(images[start : start + batch]).to(device).float() - mean) * scale
            x = x.contiguous(memory_format=torch.channels_last)
            both = self.network.embed(x).float() + self.network.embed(x.flip(3)).float()
            features[start : start + batch] = both.cpu().numpy() / 2
        return features

    # ── files ──

    def save(self, path: Path) -> None:
        """Write as safetensors, placed in one step."""
        state = dict(self.network.state_dict())
        shape = ",".join(map(str, self.shape))
        about = {"kind": _KIND, "model": self.model, "shape": shape, "flop": str(self.flop)}
        losses = torch.tensor(self.losses, dtype=torch.float64)
        content = encode(
            state | {"features.mean": self.mean, "features.scale": self.scale, "features.losses": losses}, about
        )
        place_file(path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: Path) -> ContrastiveFeaturizer:
        """As saved."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata()
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if about["kind"] != _KIND:
                raise KeyError
            mean, scale, losses = (state.pop(f"features.{name}") for name in ("mean", "scale", "losses"))
            shape = tuple(map(int, about["shape"].split(",")))
            model = about.get("model", "fast")  # which all were, before there were others
            network = FastNet(2, shape[0], WIDTHS[model])
            network.load_state_dict(
                {name: value for name, value in state.items() if not name.startswith("head")}, strict=False
            )
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            flop = int(about["flop"])
            if not 0 <= flop < _MOST_FLOP:
                raise ValueError
            return cls(model, network, mean, scale, shape, tuple(losses.tolist()), flop)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError, AttributeError, RuntimeError):
            raise FileFormatError(f"{path} is not a file of contrastive features.") from None


def learn_contrastive(
    images: npt.NDArray[np.uint8],
    *,
    epochs: int = 6,
    seed: int = 0,
    threads: int | None = None,
    views: int = 4,
    batch: int = 256,
    learning_rate: float = 0.3,
    model: str = "fast",
    device: str = "cpu",
    checkpoint: Path | None = None,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> ContrastiveFeaturizer:
    """Learn from public images. With a `checkpoint` file, an interrupted run goes on after its last finished epoch, exactly.

    About 0.35 GFLOP an image and epoch for 3×32×32 with `fast`: 6 epochs of CIFAR-10 are 1e14, some 10 minutes of one core with bfloat16.
    """
    check_images(images)
    _check(images, epochs, views, batch, model)
    run = _Run(images, epochs, seed, views, min(batch, len(images)), learning_rate, model, choose_device(device))
    if checkpoint is not None and checkpoint.exists():
        run.load(checkpoint)
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        while len(run.losses) < epochs:
            run.epoch()
            on_epoch(len(run.losses), run.losses[-1])
            if checkpoint is not None:
                run.save(checkpoint)
    finally:
        torch.set_num_threads(before)
    return ContrastiveFeaturizer(model, run.network, run.mean, run.scale, images.shape[1:], tuple(run.losses), run.flop)


def flop_an_epoch(images: npt.NDArray[np.uint8], model: str = "fast", views: int = 4) -> int:
    """Of contrastive learning from these images."""
    check_images(images)
    _check(images, 1, views, 2, model)
    return len(images) * views * _flop_of_a_view(FastNet(2, images.shape[1], WIDTHS[model]), images.shape[2:])


def contrastive_loss(projections: Tensor) -> Tensor:
    """Of projections (views, images, width); the equation above, averaged over all views of all images."""
    views, images, _ = projections.shape
    z = functional.normalize(projections.float(), dim=-1).reshape(views * images, -1)
    similar = z @ z.T / _TEMPERATURE
    image = torch.arange(images, device=z.device).repeat(views)
    same = image[:, None] == image[None, :]
    # A view's similarity to itself is 1/τ: taken out of the sum over its image's views.
    together = (similar.masked_fill(~same, 0).sum(dim=1) - 1 / _TEMPERATURE) / (views - 1)
    apart = similar.masked_fill(same, -torch.inf).logsumexp(dim=1)
    return (apart - together).mean()


class _Run:
    """Network, optimiser and how far they are. Each epoch draws from a generator of its own: resumed, it is the same epoch."""

    def __init__(
        self, images: npt.NDArray[np.uint8], epochs: int, seed: int, views: int, batch: int, learning_rate: float, model: str,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.images, self.device = torch.from_numpy(images), device
        self.epochs, self.seed, self.views, self.batch = epochs, seed, views, batch
        self.dtype = choose_dtype(device)
        sample = self.images[:: max(1, len(images) // 5000)].float()
        self.mean = sample.mean(dim=(0, 2, 3))[:, None, None]
        self.scale = 1 / sample.std(dim=(0, 2, 3)).clamp_min(1e-6)[:, None, None]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = FastNet(2, images.shape[1], WIDTHS[model])
            self.projector = nn.Sequential(
                nn.Linear(self.network.width, 256, bias=False),
                nn.BatchNorm1d(256),
                nn.ReLU(),
                nn.Linear(256, 64, bias=False),
            )
        self.network.prepare((sample - self.mean) * self.scale)
        self.network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.projector.to(device)
        self.flop_of_a_view = _flop_of_a_view(self.network, images.shape[2:])
        self.parameters = [*self.network.groups.parameters(), *self.projector.parameters()]
        self.optimizer = torch.optim.SGD(
            self.parameters, lr=learning_rate, momentum=0.9, nesterov=True, weight_decay=1e-4
        )
        self.learning_rate = learning_rate
        self.losses: list[float] = []
        self.flop = 0
        self.about = {
            name: str(value)
            for name, value in {
                "epochs": epochs, "seed": seed, "views": views, "batch": batch, "learning_rate": learning_rate,
                "shape": tuple(images.shape), "pixels": int(self.images.sum()), **({} if model == "fast" else {"model": model}),
            }.items()
        }  # fmt: skip

    def epoch(self) -> None:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + len(self.losses))
        order = torch.randperm(len(self.images), generator=generator)
        self.network.train()
        self.projector.train()
        losses = []
        for start in range(0, len(order) - self.batch + 1, self.batch):
            x = (self.images[order[start : start + self.batch]].float() - self.mean) * self.scale
            x = random_views(x, self.views, generator).to(self.device, memory_format=torch.channels_last)
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32):
                projections = self.projector(self.network.embed(x).float())
            loss = contrastive_loss(projections.reshape(self.views, self.batch, -1))
            self.optimizer.param_groups[0]["lr"] = self.learning_rate * self._rate(start // self.batch)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if not np.isfinite(mean):
            raise InputError(f"contrastive learning diverged in epoch {len(self.losses) + 1}; lower the learning rate.")
        self.flop += len(losses) * self.batch * self.views * self.flop_of_a_view
        self.losses.append(mean)

    def _rate(self, step: int) -> float:
        """A cosine to 0, after half an epoch's linear warm-up."""
        steps = len(self.images) // self.batch
        done, warm = len(self.losses) * steps + step, steps // 2
        if done < warm:
            return (done + 1) / warm
        return (1 + math.cos(math.pi * (done - warm) / (self.epochs * steps - warm))) / 2

    # ── checkpoints ──

    def _state(self) -> dict[str, Tensor]:
        state = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        state |= {f"projector.{name}": value for name, value in self.projector.state_dict().items()}
        for index, parameter in enumerate(self.parameters):
            momentum = self.optimizer.state[parameter].get("momentum_buffer")
            state[f"momentum.{index}"] = torch.zeros_like(parameter) if momentum is None else momentum
        return state

    def save(self, path: Path) -> None:
        state = self._state()
        state["losses"] = torch.tensor(self.losses, dtype=torch.float64)
        content = encode(state, self.about | {"flop": str(self.flop)})
        place_file(path, lambda file: file.write(content))

    def load(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="pt") as file:
                about = dict(file.metadata())
                saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            self.flop = int(about.pop("flop"))
            losses = saved.pop("losses").tolist()
            changed = [name for name, value in self.about.items() if about.get(name) != value]
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            raise InputError(f"{path} is not a checkpoint of contrastive learning.") from None
        if changed:
            raise InputError(
                f"{path} was begun with other settings or images ({', '.join(changed)}); resume with the same, or name another file."
            )
        for index, parameter in enumerate(self.parameters):
            self.optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            self.optimizer.state[parameter]["momentum_buffer"].copy_(saved.pop(f"momentum.{index}"))
        for name, value in self._state().items():
            if name in saved:
                value.copy_(saved[name])
        self.losses = losses


def _flop_of_a_view(network: FastNet, size: tuple[int, ...]) -> int:
    """A forward pass, and twice that for the gradients; the projector's are not worth counting."""
    from torch.utils.flop_counter import FlopCounterMode

    x = torch.zeros(1, network.whiten.in_channels, *view_size(size), device=network.whiten.weight.device)
    network.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.embed(x)
    return 3 * int(counter.get_total_flops())


def _check(images: npt.NDArray[np.uint8], epochs: int, views: int, batch: int, model: str) -> None:
    if model not in WIDTHS:
        raise InputError(f"contrastive learning trains {', '.join(WIDTHS)}; not {model!r}.")
    if min(images.shape[2:]) < _SMALLEST:
        size = "×".join(map(str, images.shape[2:]))
        raise InputError(
            f"contrastive learning needs images of {_SMALLEST}×{_SMALLEST} pixels or more; these are {size}."
        )
    if epochs < 1 or views < 2 or min(batch, len(images)) < 2:
        raise InputError(
            f"contrastive learning needs an epoch, two views and two images or more; got {epochs} epochs, {views} views, "
            f"{len(images):,} images in batches of {batch}."
        )
