"""002's grid on ChaosNLI at 384 features, stacked, against what people write or call instead, one run after another.

    python benchmarks/stacked.py [--quick] [--members 14] [--rounds 10] [--growth] [--whole]

The items are ChaosNLI's, with the MiniLM features of the premise, where they are (`dissensus embed chaosnli minilm`), or
as many made-up ones. 60/20/20, a head of 256; 3 learning rates × 3 batch sizes × 3 epoch counts × 2 weight decays × 2
schedules × soft and hard labels = 216 runs. Against

(a) the loop of PyTorch's tutorial: a DataLoader for training and one for validation, Adam, `loss.item()` at every step;
(b) a bare loop: batches by index from memory, fused Adam, validation in one batch, nothing read back within an epoch;
(c) scikit-learn's GridSearchCV of MLPClassifier, which knows no soft labels, dropout, GELU, schedule or checkpoint, so
    that it does less: 18 of the 216 configurations, with rectifiers.

Each runs at its better of 1 and 2 threads, ours too, which two rounds decide.

An epoch costs a contender the same at its first configuration and at its last. So by default a part of the grid stands
for it: of each batch size, in equal numbers, a stack of `--members` with all learning rates, decays and labels, and one
configuration of each loop; 4 epochs each, in turn, best of many rounds, scaled to the epochs of the grid without early
stopping: 1,080 a batch size, or 480 where runs of 10 and 15 epochs are taken from those of 20, on both sides. `--whole`
runs all 216 with early stopping, and the loops as well. `--growth` draws how the ratio grows with members and with the
width of the features, into docs/stacked.md.
"""

import argparse
import copy
import itertools
import re
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot
from torch.utils.data import DataLoader, TensorDataset

from dissensus import datasets, random
from dissensus.errors import InputError
from dissensus.models import Mlp, new_model
from dissensus.training import stacked
from dissensus.training.optimisers import Adam
from dissensus.training.schedules import Constant, EarlyStopping, Plateau
from dissensus.training.stacked import Member
from timing import best_of

ITEMS, TRAIN, VALIDATION, WIDTH, CLASSES, HEAD = 3113, 1868, 622, 384, 3, Mlp()
RATES, BATCHES, EPOCHS, DECAYS = (1e-3, 1e-4, 1e-5), (8, 16, 32), (10, 15, 20), (0.0, 1e-4)
SCHEDULES = (Constant(), Plateau())
CONFIGURATIONS = len(RATES) * len(DECAYS) * len(SCHEDULES) * 2  # of one batch size and epoch count, soft and hard
WHOLE, SHARED = CONFIGURATIONS * sum(EPOCHS), CONFIGURATIONS * max(EPOCHS)  # epochs of one batch size
AIMS = {"bare": 3, "loader": 10}
NAMES = {"bare": "bare loop", "loader": "DataLoader loop", "sklearn": "scikit-learn"}
DOCS = Path(__file__).parent.parent / "docs"


def chaosnli():
    """The premise's features [N, 384] and the shares of the votes [N, 3]; made up where the data are not here."""
    try:
        data = datasets.load("chaosnli", features="minilm")
    except InputError:
        print("ChaosNLI or its features are not here: made-up items of the same size")
        return made(WIDTH)
    order = torch.randperm(len(data), generator=random.generator(0, "probe"))
    return data.x[order, :WIDTH].contiguous(), data.people[order]


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
        for batch, length, schedule, decay, (labels, target), rate in itertools.product(
            batches, epochs, SCHEDULES, DECAYS, kinds, RATES
        )
    ]


def prepared(x, member):
    """What a person has before the grid: normalised features and a module, here with our initial weights."""
    model = new_model(HEAD, x[member.train_rows], CLASSES, seed=member.seed)
    inputs = model.normalise(x)
    return inputs[member.train_rows], inputs[member.validation_rows], nn.Sequential(model.body, model.head)


def by_hand(ready, member, *, loader, keyed=False):
    """One configuration as people write it; `keyed` draws order and dropout from our streams, to compare the results."""
    train, validation, start = ready
    model, y, wanted = copy.deepcopy(start), member.labels(0), member.validation_target.float()
    rule = member.optimiser
    optimiser = torch.optim.Adam(model.parameters(), rule.lr, weight_decay=rule.weight_decay, fused=not loader)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, factor=0.5, patience=2)
    judged = [(validation, wanted)]
    if loader:
        judged = DataLoader(TensorDataset(validation, wanted), member.batch)
    losses = []
    for epoch in range(member.epochs):
        order = torch.randperm(len(train), generator=random.generator(member.seed, "order", epoch) if keyed else None)
        if loader:
            how = {"sampler": order.tolist()} if keyed else {"shuffle": True}
            batches = DataLoader(TensorDataset(train, y), member.batch, **how)
        else:
            batches = ((train[rows], y[rows]) for rows in order.split(member.batch))
        model.train()
        running = 0.0
        for step, (inputs, labels) in enumerate(batches):
            if keyed:
                torch.default_generator.manual_seed(random.key(member.seed, "dropout", epoch, step))
            loss = cross_entropy(model(inputs), labels)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            running += loss.item() if loader else loss.detach()
        model.eval()
        with torch.no_grad():
            total = sum(cross_entropy(model(inputs), labels).item() * len(inputs) for inputs, labels in judged)
        losses.append(total / len(validation))
        if member.schedule.watches:
            plateau.step(losses[-1])
        if member.stopping is not None and member.stopping.stops(losses):
            break
    return losses[-1]


def by_sklearn(x, people, batch, epochs):
    """The configurations of one batch size that scikit-learn can express: learning rates × decays, hard labels."""
    from sklearn.model_selection import GridSearchCV, PredefinedSplit
    from sklearn.neural_network import MLPClassifier

    settings = {"hidden_layer_sizes": HEAD.hidden, "batch_size": batch, "max_iter": epochs, "n_iter_no_change": 10**6}
    search = GridSearchCV(
        MLPClassifier(**settings, random_state=0),
        {"learning_rate_init": RATES, "alpha": [decay * TRAIN for decay in DECAYS]},  # theirs is divided by the items
        scoring="neg_log_loss",
        cv=PredefinedSplit([-1] * TRAIN + [0] * VALIDATION),
        refit=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that so few epochs do not converge
        search.fit(x[: TRAIN + VALIDATION], people[: TRAIN + VALIDATION].argmax(1))
    return search.best_score_


def ours(x, members, **more):
    trained = stacked.fit(x, members, head=HEAD, classes=CLASSES, keep=(), **more)
    return [one.curve["validation_loss"][-1] for one in trained]


def on(threads, run, *, blas=False):
    """The same with this many threads of torch, or of NumPy's algebra."""

    def with_threads():
        from threadpoolctl import threadpool_limits

        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            with threadpool_limits(threads, "blas") if blas else nullcontext():
                return run()
        finally:
            torch.set_num_threads(before)

    return with_threads


def an_epoch(x, people, members, rounds, contenders, epochs=4):
    """Seconds that an epoch of one configuration takes each contender, and the number of threads that was better."""
    few = [replace(member, epochs=epochs) for member in members]
    one, ready = few[0], prepared(x, few[0])
    numpy = ((x - x.mean(0)) / x.std(0)).numpy(), people.numpy()
    work = {
        "stacked": (lambda: ours(x, few), len(few) * epochs),
        "bare": (lambda: by_hand(ready, one, loader=False), epochs),
        "loader": (lambda: by_hand(ready, one, loader=True), epochs),
        "sklearn": (lambda: by_sklearn(*numpy, one.batch, 1), len(RATES) * len(DECAYS)),
    }
    both = {(name, count): on(count, work[name][0], blas=name == "sklearn") for name in contenders for count in (1, 2)}
    pilot, _ = best_of(2, **{f"{name} {count}": run for (name, count), run in both.items()})
    better = {name: min((pilot[f"{name} {count}"], count) for count in (1, 2))[1] for name in contenders}
    best, _ = best_of(rounds, **{name: both[name, better[name]] for name in contenders})
    return {name: (best[name] / work[name][1], better[name]) for name in contenders}


def scaled(x, people, rounds, members):
    total = dict.fromkeys(("stacked", *NAMES), 0.0)
    for batch in BATCHES:
        alike = grid(people, [batch])[:members]
        times = an_epoch(x, people, alike, rounds, tuple(total))
        said = []
        for name, (seconds, threads) in times.items():
            total[name] += seconds
            said.append(f"{name} {seconds * 1e3:.1f} ms on {threads} ({seconds / times['stacked'][0]:.1f}x)")
        print(f"batch {batch}, an epoch of one of {len(alike)} members: {' | '.join(said)}", flush=True)
    ratios = {name: seconds / total["stacked"] for name, seconds in total.items()}
    for what, epochs in (("nothing shared", WHOLE), ("epochs shared on both sides", SHARED)):
        others = [f"{NAMES[name]} {total[name] * epochs:.0f} s {ratios[name]:.1f}x" for name in ("bare", "loader")]
        print(f"the grid, {what} (scaled): ours {total['stacked'] * epochs:.0f} s | {' | '.join(others)}")
    print(f"an epoch of scikit-learn's smaller work takes {ratios['sklearn']:.1f} times ours")
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
    """All configurations, with early stopping: ours three times in between, of which the best counts."""
    members = grid(people, stopping=EarlyStopping())
    ready, loops = prepared(x, members[0]), {"bare": [], "loader": []}
    mine = {"nothing shared": [], "epochs shared": []}
    for place, one in enumerate(members):
        if place % (len(members) // 3) == 0:
            for name, times in mine.items():
                times.append(
                    seconds(on(2, lambda share=name != "nothing shared": ours(x, members, share_prefixes=share)))
                )
        for name, times in loops.items():
            times.append(seconds(on(1, lambda one=one, loader=name == "loader": by_hand(ready, one, loader=loader))))
    for how, (best, *_) in ((name, sorted(times)) for name, times in mine.items()):
        counted = [how == "nothing shared" or one.epochs == max(EPOCHS) for one in members]
        totals = {name: sum(itertools.compress(times, counted)) for name, times in loops.items()}
        others = [f"{NAMES[name]} {total:.0f} s on 1 {total / best:.1f}x" for name, total in totals.items()]
        print(f"the whole grid, early stopping, {how}: ours {best:.0f} s on 2 | {' | '.join(others)}", flush=True)


def seconds(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def growth(rounds):
    """Ratios by members and width, printed, drawn, and written into the page."""
    from dissensus.report.drawing import lines

    from dissensus.report.svg import Style, standalone

    counts, widths, contenders = (1, 2, 4, 8, 16, 36), (384, 1024, 3072), ("bare", "loader")
    ratios = {}
    for width in widths:
        x, people = made(width)
        members = grid(people, [16], train=320, validation=107)  # the grid's proportion, in less time
        for count in counts:
            times = an_epoch(x, people, members[:count], rounds, ("stacked", *contenders), epochs=3)
            for name in contenders:
                ratios[name, width, count] = times[name][0] / times["stacked"][0]
        print(f"{width:5d} features: " + "  ".join(f"{ratios['bare', width, c]:.1f}x" for c in counts), flush=True)
    (DOCS / "figures").mkdir(exist_ok=True)
    for name in contenders:
        paths = {
            f"{width:,} features": (Style(k), [(c, ratios[name, width, c], 0.0) for c in counts])
            for k, width in enumerate(widths)
        }
        panel = lines(f"times as fast as the {NAMES[name]}", paths, ("members", ""))
        (DOCS / "figures" / f"stacked-{name}.svg").write_text(standalone(panel.drawing), encoding="utf-8")
    head = "| features | against | members: " + " | ".join(map(str, counts)) + " |"
    rows = [
        f"| {width:,} | {NAMES[name]} | " + " | ".join(f"{ratios[name, width, c]:.1f}" for c in counts) + " |"
        for width in widths
        for name in contenders
    ]
    table = "\n".join([head, "| ---: | :--- |" + " ---: |" * len(counts), *rows])
    page = DOCS / "stacked.md"
    marked = re.compile(r"(<!-- growth -->\n).*?(<!-- end -->)", re.DOTALL)
    page.write_text(marked.sub(rf"\1\n{table}\n\n\2", page.read_text(encoding="utf-8")), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=14, help="timed together at each batch size, of the grid's 72")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="two rounds, and no aims")
    parser.add_argument("--growth", action="store_true", help="only the ratios for other members and widths")
    parser.add_argument("--whole", action="store_true", help="and all 216 runs, loops too: 15 minutes")
    options = parser.parse_args()
    rounds = 2 if options.quick else options.rounds
    if options.growth:
        growth(rounds)
        return
    x, people = chaosnli()
    check_results(x, people)
    ratios = scaled(x, people, rounds, options.members)
    if options.whole:
        whole(x, people)
    for name, aim in AIMS.items():
        assert options.quick or ratios[name] >= aim, f"{ratios[name]:.1f}x is less than {aim}x of the {NAMES[name]}"


if __name__ == "__main__":
    main()
