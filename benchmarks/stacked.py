"""002's grid on data of ChaosNLI's size, stacked, against the loops that people write, configuration after configuration.

    python benchmarks/stacked.py [--quick] [--members 14] [--rounds 10] [--grow] [--whole]

3,113 items of 384 features (made here: three clusters that overlap, 100 votes an item), 60/20/20, a head of 256; 3
learning rates × 3 batch sizes × 3 epoch counts × 2 weight decays × 2 schedules × soft and hard labels = 216 runs. Against
(a) a DataLoader and Adam, (b) batches by index from memory and fused Adam; each at its better of 1 and 2 threads, which
two rounds decide.

An epoch costs a contender the same at its first configuration and at its last, so by default each is timed on a few at
each batch size, in turn, best of many rounds, and scaled to the epochs of the grid without early stopping: 1,080 a batch
size, or 480 where runs of 10 and 15 epochs are taken from those of 20, on both sides. `--whole` runs all of it, with
early stopping, against (b). `--grow` shows how the ratio to (b) grows with members and with the width of the features.
"""

import argparse
import copy
import itertools
from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import DataLoader, TensorDataset

from dissensus import random, stacked
from dissensus.models import Mlp, moments
from dissensus.optim import Adam, Constant, EarlyStopping, Plateau
from dissensus.stacked import Member
from timing import best_of

ITEMS, TRAIN, VALIDATION, WIDTH, CLASSES, HEAD = 3113, 1868, 622, 384, 3, Mlp()
RATES, BATCHES, EPOCHS, DECAYS = (1e-3, 1e-4, 1e-5), (8, 16, 32), (10, 15, 20), (0.0, 1e-4)
SCHEDULES = (Constant(), Plateau())
CONFIGURATIONS = len(RATES) * len(DECAYS) * len(SCHEDULES) * 2  # of one batch size and epoch count, soft and hard
WHOLE, SHARED = CONFIGURATIONS * sum(EPOCHS), CONFIGURATIONS * max(EPOCHS)  # epochs of one batch size
AIMS = {"bare": 3, "loader": 10}


def made(width):
    """Features [N, D] in three clusters that overlap, and the shares of 100 votes [N, 3]."""
    rng = random.numpy_generator(0, "probe")
    place = rng.dirichlet([0.7] * CLASSES, ITEMS)
    x = place @ rng.normal(size=(CLASSES, width)) + 0.8 * rng.normal(size=(ITEMS, width))
    votes = rng.multinomial(100, 0.8 * place + 0.2 / CLASSES)
    return torch.from_numpy(x).float(), torch.from_numpy(votes / 100)


def grid(people, batches=BATCHES, epochs=EPOCHS, stopping=None, train=TRAIN, validation=VALIDATION):
    """Members in an order in which the first few have every learning rate and both kinds of label."""
    rows, judged = torch.arange(train), torch.arange(TRAIN, TRAIN + validation)
    majority = people.argmax(1)
    soft, hard = people[rows].float(), majority[rows]
    kinds = [
        (lambda _: soft, people[judged]),
        (lambda _: hard, one_hot(majority[judged], CLASSES).double()),
    ]
    return [
        Member(0, rows, judged, labels, target, Adam(rate, decay), schedule, stopping, length, batch)
        for batch, length, decay, schedule, (labels, target), rate in itertools.product(
            batches, epochs, DECAYS, SCHEDULES, kinds, RATES
        )
    ]


def prepared(x, member):
    """What a person has before the grid: normalised features and a module, here with our initial weights."""
    mean, std = moments(x[member.train_rows])
    with random.seeded(member.seed, "init"):
        model = HEAD.build((x.shape[1],), CLASSES, mean, std)
    inputs = (x - mean) / std
    return inputs[member.train_rows], inputs[member.validation_rows], nn.Sequential(model.body, model.head)


def by_hand(ready, member, *, loader, keyed=False):
    """One configuration as people write it; `keyed` draws order and dropout from our streams, to compare the results."""
    train, validation, start = ready
    model, y, wanted = copy.deepcopy(start), member.labels(0), member.validation_target.float()
    rule = member.optimiser
    optimiser = torch.optim.Adam(model.parameters(), rule.lr, weight_decay=rule.weight_decay, fused=not loader)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=2)
    losses = []
    for epoch in range(member.epochs):
        order = torch.randperm(len(train), generator=random.generator(member.seed, "order", epoch) if keyed else None)
        if loader:
            how = {"sampler": order.tolist()} if keyed else {"shuffle": True}
            batches = DataLoader(TensorDataset(train, y), member.batch, **how)
        else:
            batches = ((train[rows], y[rows]) for rows in order.split(member.batch))
        model.train()
        for step, (inputs, labels) in enumerate(batches):
            if keyed:
                torch.default_generator.manual_seed(random.key(member.seed, "dropout", epoch, step))
            loss = cross_entropy(model(inputs), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            losses.append(cross_entropy(model(validation), wanted).item())
        if isinstance(member.schedule, Plateau):
            plateau.step(losses[-1])
        if member.stopping is not None and member.stopping.stops(losses):
            break
    return losses[-1]


def ours(x, members, **more):
    trained = stacked.fit(x, members, head=HEAD, classes=CLASSES, keep=(), **more)
    return [one.curve["validation_loss"][-1] for one in trained]


def on(threads, run):
    """The same with this many threads of torch."""

    def with_threads():
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            return run()
        finally:
            torch.set_num_threads(before)

    return with_threads


def an_epoch(x, members, rounds, contenders=("stacked", "bare", "loader"), epochs=4):
    """Seconds that an epoch of one member takes each contender, and the number of threads that was better."""
    few, one, ready = [replace(member, epochs=epochs) for member in members], members[0], prepared(x, members[0])
    one = replace(one, epochs=1)
    work = {
        "stacked": (lambda: ours(x, few), len(few) * epochs),
        "bare": (lambda: by_hand(ready, one, loader=False), 1),
        "loader": (lambda: by_hand(ready, one, loader=True), 1),
    }
    threads = {"stacked": (2,), "bare": (1, 2), "loader": (1, 2)}  # a stack a thread: one thread takes twice as long
    both = {(name, count): on(count, work[name][0]) for name in contenders for count in threads[name]}
    pilot, _ = best_of(2, **{f"{name} {count}": run for (name, count), run in both.items()})
    better = {name: min((pilot[f"{name} {count}"], count) for count in threads[name])[1] for name in contenders}
    best, _ = best_of(rounds, **{name: both[name, better[name]] for name in contenders})
    return {name: (best[name] / work[name][1], better[name]) for name in contenders}


def scaled(x, people, rounds, members):
    total = dict.fromkeys(("stacked", "bare", "loader"), 0.0)
    for batch in BATCHES:
        alike = grid(people, [batch])[:members]
        times = an_epoch(x, alike, rounds)
        said = []
        for name, (seconds, threads) in times.items():
            total[name] += seconds
            said.append(f"{name} {seconds * 1e3:.1f} ms on {threads} ({seconds / times['stacked'][0]:.1f}x)")
        print(f"batch {batch}, an epoch of one of {len(alike)} members: {' | '.join(said)}", flush=True)
    ratios = {name: seconds / total["stacked"] for name, seconds in total.items()}
    for what, epochs in (("nothing shared", WHOLE), ("epochs shared on both sides", SHARED)):
        print(
            f"the grid, {what} (scaled): ours {total['stacked'] * epochs:.0f} s"
            f" | bare loop {total['bare'] * epochs:.0f} s {ratios['bare']:.1f}x"
            f" | DataLoader loop {total['loader'] * epochs:.0f} s {ratios['loader']:.1f}x"
        )
    return ratios


def check_results(x, people):
    """Final validation losses of some configurations of every batch size, against both loops."""
    members = [one for batch in BATCHES for one in grid(people, [batch], [2])[batch // 8 :: 9]]
    ready = prepared(x, members[0])
    apart = max(
        abs(loss - by_hand(ready, one, loader=loader, keyed=True))
        for one, loss in zip(members, ours(x, members), strict=True)
        for loader in (False, True)
    )
    print(f"the same results: max |Δ validation loss| {apart:.0e} over {len(members)} configurations of 2 epochs")
    assert apart < 1e-4, "not the same work"


def whole(x, people):
    members = grid(people, stopping=EarlyStopping())
    longest, ready = [one for one in members if one.epochs == max(EPOCHS)], prepared(x, members[0])
    seconds, _ = best_of(
        1,
        ours=on(2, lambda: ours(x, members)),
        shared=on(2, lambda: ours(x, members, share_prefixes=True)),
        bare=on(1, lambda: [by_hand(ready, one, loader=False) for one in members]),
        bare_shared=on(1, lambda: [by_hand(ready, one, loader=False) for one in longest]),
    )
    for what, mine, theirs in (("nothing shared", "ours", "bare"), ("epochs shared", "shared", "bare_shared")):
        print(
            f"the whole grid with early stopping, {what}: ours {seconds[mine]:.0f} s on 2"
            f" | bare loop {seconds[theirs]:.0f} s on 1 | {seconds[theirs] / seconds[mine]:.1f}x"
        )


def grow(rounds):
    counts = (1, 2, 4, 8, 16, 36)
    print(f"times as fast as the bare loop; batch 16, 320 items; members {', '.join(map(str, counts))}")
    for width in (384, 1024, 3072):
        x, people = made(width)
        members = grid(people, [16], train=320, validation=107)  # the grid's proportion, in less time
        times = [an_epoch(x, members[:count], rounds, ("stacked", "bare")) for count in counts]
        ratios = [one["bare"][0] / one["stacked"][0] for one in times]
        print(f"{width:5d} features: " + "  ".join(f"{ratio:.1f}x" for ratio in ratios), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=14, help="timed together at each batch size, of the grid's 72")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two rounds, and no aims")
    parser.add_argument("--grow", action="store_true", help="and the ratios for other members and widths")
    parser.add_argument("--whole", action="store_true", help="and all 216 runs, against the bare loop: minutes")
    options = parser.parse_args()
    x, people = made(WIDTH)
    check_results(x, people)
    ratios = scaled(x, people, 2 if options.quick else options.rounds, options.members)
    if options.grow:
        grow(2 if options.quick else options.rounds)
    if options.whole:
        whole(x, people)
    for name, aim in AIMS.items():
        assert options.quick or ratios[name] >= aim, f"{ratios[name]:.1f}x is less than {aim}x of the {name} loop"


if __name__ == "__main__":
    main()
