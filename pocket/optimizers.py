"""AdamW, and Muon for the matrices of the blocks, with rates that live on the device and can stand in a CUDA graph."""

from __future__ import annotations

from collections import defaultdict

import torch

from recipes import Recipe

#: Of Muon: the momentum, and how often the quintic iteration that makes a matrix orthogonal is repeated.
MOMENTUM, ITERATIONS = 0.95, 5


class Optimizers:
    """All that a recipe trains a model with."""

    def __init__(self, model, recipe: Recipe, device: str):
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        inner = {name for name, parameter in named if recipe.muon and parameter.dim() == 2 and is_inner(name)}
        matrices = [parameter for name, parameter in named if parameter.dim() > 1 and name not in inner]
        others = [parameter for _, parameter in named if parameter.dim() < 2]
        groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
        rate = torch.tensor(0.0, device=device)
        on_gpu = device == "cuda"
        self.parameters = [parameter for _, parameter in named]
        self.all = [torch.optim.AdamW(groups, lr=rate, betas=recipe.betas, fused=True, capturable=on_gpu)]
        self.rates = [(rate, recipe.learning_rate)]
        if inner:
            rate = torch.tensor(0.0, device=device)
            self.all.append(Muon([parameter for name, parameter in named if name in inner], rate, recipe.weight_decay))
            self.rates.append((rate, recipe.muon))

    def set(self, factor: float) -> None:
        """The rates, as a share of the largest."""
        for rate, largest in self.rates:
            rate.fill_(factor * largest)

    def step(self) -> None:
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        for optimizer in self.all:
            optimizer.step()

    def forget(self) -> None:
        """As before the first step."""
        for optimizer in self.all:
            for state in optimizer.state.values():
                for value in state.values():
                    value.zero_()

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


def is_inner(name: str) -> bool:
    """Whether a matrix stands inside a block: neither an embedding nor an output."""
    return any(part.isdigit() for part in name.split("."))


class Muon:
    """Momentum whose every matrix is made orthogonal (Jordan 2024); matrices of one shape go together."""

    def __init__(self, parameters: list[torch.Tensor], rate: torch.Tensor, weight_decay: float):
        self.rate, self.weight_decay = rate, weight_decay
        by_shape = defaultdict(list)
        for parameter in parameters:
            by_shape[parameter.shape].append(parameter)
        self.groups = [*by_shape.values()]
        self.state = {shape: {"momentum": torch.zeros_like(torch.stack([*group]), requires_grad=False)} for shape, group in by_shape.items()}

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            momentum = self.state[group[0].shape]["momentum"]
            gradient = torch.stack([parameter.grad for parameter in group])
            momentum.lerp_(gradient, 1 - MOMENTUM)
            update = orthogonal(gradient.lerp(momentum, MOMENTUM))
            rows, columns = update.shape[1:]
            update = update * (-self.rate * max(1.0, rows / columns) ** 0.5)
            keep = 1 - self.rate * self.weight_decay
            torch._foreach_mul_(group, keep)
            torch._foreach_add_(group, list(update.unbind()))


def orthogonal(matrices: torch.Tensor) -> torch.Tensor:
    """Of each U S V^T about U V^T: an odd polynomial, again and again, draws all singular values near one."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices.mT if tall else matrices).bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).float()
