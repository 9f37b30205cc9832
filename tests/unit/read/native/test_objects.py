"""Methods of objects as C: the same as in Python, or not at all."""

from __future__ import annotations

import copy
import ctypes
from array import array
from collections import deque
from dataclasses import dataclass
from random import Random
from shutil import which

import pytest

from labs.errors import Missing
from labs.read.native import objects
from labs.read.native.build import FLAGS, build, library_text
from labs.read.native.objects import performed_as_c, program_symbol, referred
from labs.read.native.to_c import Program

QUIET, LOUD = "quiet", "loud"
needs_compiler = pytest.mark.skipif(which("cc") is None, reason="there is no C compiler")


@dataclass(slots=True)
class Parcel:
    size: int
    weight: float
    label: str
    fragile: bool = False


class Shelf:
    """What the depot refers to, and a base class."""

    parcels: deque[Parcel]
    order: deque[int]

    def __init__(self) -> None:
        self.parcels, self.order = deque(), deque()
        self.most, self.full = 0, False

    def put(self, size: int, *, label: str = QUIET, fragile: bool = False) -> bool:
        parcel = Parcel(size, size / 3, label, fragile)
        self.parcels.append(parcel)
        self.order.appendleft(size)
        self.most = max(self.most, len(self.parcels), self.measure(size))
        return self.full or size > 90

    def measure(self, size: int) -> int:
        raise NotImplementedError


class DeepShelf(Shelf):
    def measure(self, size: int) -> int:
        return rounded_up(size, 8)


def rounded_up(size: int, step: int) -> int:
    return -(-size // step) * step


class Depot:
    said: list[str]

    def __init__(self, first: int, last: int) -> None:
        self.shelf: Shelf = DeepShelf()
        self.first, self.last = first, last
        self.said = []
        self.sizes: array[int] = array("q")
        self.shares: array[float] = array("d")
        self.name = "north"
        self.total, self.mean, self.even, self.state = 0, 0.0, False, 0

    def fill(self) -> None:
        shelf = self.shelf
        for size in range(self.first, self.last, 7):
            label = LOUD if 3 < size % 10 <= 8 or not size else QUIET
            if shelf.put(size, fragile=size > 50, label=label):
                break
            self.even = not self.even
        while shelf.parcels and len(shelf.order) > 1:
            parcel = shelf.parcels.popleft()
            if parcel.label == LOUD and shelf.parcels:
                shelf.parcels[-1].size += parcel.size
            elif parcel.fragile:
                continue
            self.said.append(parcel.label)
            low, high = self.halves(parcel.size)
            low, high = high, low
            self.sizes.append(low - high * 2 ** (parcel.size % 3))
            self.shares.append(abs(round(parcel.weight * 1.5)) ** (1 / 3))
            shelf.order.pop()
            self.total += (shelf.order[0] or 5) * (-1 if self.even else 1)
        self.state = abs(self.total) or self.state
        self.mean = self.total / max(len(self.sizes), 1)
        self.name = LOUD if self.mean > 0 else QUIET

    def halves(self, size: int) -> tuple[int, int]:
        return size >> 1, -size // 2 if size else size

    def overflow(self) -> None:
        self.total = 1
        self.sizes.append(1)
        for _ in range(self.first):
            self.total *= self.last

    def divide(self) -> None:
        self.total = 7
        self.total //= self.first

    def root(self) -> None:
        self.mean = (self.first - 1) ** (1 / 3)

    def compare(self) -> None:
        self.even = self.first * 4503599627370496 > self.mean

    def take(self) -> None:
        self.total = self.shelf.order.popleft()

    def with_a_set(self) -> None:
        self.total = len({self.first})

    def with_a_text_in_a_tuple(self) -> None:
        self.total = int(self.name in (QUIET, LOUD))

    def with_a_float_in_a_field(self) -> None:
        self.total = self.mean  # type: ignore[assignment]

    def with_another_type(self) -> None:
        part = self.first
        part = self.mean  # type: ignore[assignment]
        self.total = part


@dataclass(slots=True, eq=False)
class Wagon:
    """Compared by identity, so it may be in two trains."""

    number: int
    load: int = 0


class Track:
    wagons: deque[Wagon]

    def __init__(self) -> None:
        self.wagons = deque()
        self.moved = 0

    def couple(self, number: int, load: int) -> int:
        self.wagons.append(Wagon(number, load))
        return len(self.wagons)


class Yard(Track):
    loaded: deque[Wagon]
    parcels: deque[Parcel]

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.loaded, self.parcels = deque(), deque()
        self.random = self.same = Random(seed)
        self.numbers: array[int] = array("q")
        self.best = 0

    def couple(self, number: int, load: int) -> int:
        count = super().couple(number, load)
        if load > 3:
            self.loaded.insert(len(self.loaded) // 2, self.wagons[count - 1])
        return count

    def shunt(self) -> None:
        for number in range(700):
            draw = self.random.random()
            count = self.couple(number, int(draw * 9))
            self.parcels.insert(0 if draw < 0.5 else len(self.parcels), Parcel(number, draw, LOUD))
            if draw > 0.7:
                wagon = self.wagons[int(count * (1 - draw))]
                del self.wagons[int(count * (1 - draw))]
                del self.parcels[-1]
                if wagon in self.loaded:
                    self.moved += self.loaded.index(wagon) * 1000
                    self.loaded.remove(wagon)
                wagon.load += 100
            if self.loaded and self.loaded[0] is self.wagons[0]:
                self.moved += 1
        total = self.weigh(self.parcels)
        for wagon in self.wagons:
            if wagon.load in (2, 4) and wagon not in self.loaded:
                continue
            if (wagon.load, wagon.number) > (self.best >> 20, self.best & 1023):
                self.best = (wagon.load << 20) + wagon.number
            self.numbers.append(wagon.number)
        for wagon in self.loaded:
            self.numbers.append(wagon.load * total)

    def weigh(self, parcels: deque[Parcel]) -> int:
        total = 0
        for one in parcels:
            total += one.size
        return total

    def draw_from_both(self) -> None:
        self.best = int(self.random.random() * 1000)
        self.moved = int(self.same.random() * 1000)

    def with_records_compared(self) -> None:
        self.moved = int(self.parcels[0] == self.parcels[1])

    def with_pairs_in_a_row(self) -> None:
        self.moved = int((self.moved, 1) < (self.best, 2) < (0, 0))

    def with_a_call_in_a_pair(self) -> None:
        self.moved = int((self.couple(1, 1), 1) < (self.best, 2))

    def grow_while_counting(self) -> None:
        self.couple(1, 1)
        for wagon in self.wagons:
            self.couple(wagon.number, 1)


METHODS = {
    Depot: ("fill", "overflow", "divide", "root", "compare", "take"),
    Yard: ("shunt", "draw_from_both", "grow_while_counting"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A library with these methods."""
    texts = {"library": library_text("")}
    for instance in (Depot(0, 80), Yard(0)):
        found = referred(instance)
        for method in METHODS[type(instance)]:
            symbol = program_symbol(found, method)
            texts[symbol] = Program(found).method_text(type(instance), method, symbol)
    file = tmp_path_factory.mktemp("library") / "made.so"
    build(file, texts, ("cc", *FLAGS))
    return ctypes.CDLL(str(file))


@pytest.fixture(autouse=True)
def fresh(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The methods are performed by that library."""
    objects._program.cache_clear()
    if which("cc") is not None:
        library = request.getfixturevalue("made")
        monkeypatch.setattr(objects, "library", lambda: library)


def state(depot: Depot) -> list[object]:
    """All that is copied back."""
    values = [vars(depot) | {"shelf": None}, vars(depot.shelf) | {"parcels": None, "order": None}]
    return [*values, [type(one) for one in vars(depot).values()]]


@needs_compiler
@pytest.mark.parametrize(("first", "last"), [(0, 80), (-60, 400), (1, 2), (5, 5)])
def test_fill_is_the_same_in_c_and_in_python(first: int, last: int) -> None:
    in_c, in_python = Depot(first, last), Depot(first, last)
    assert performed_as_c(in_c.fill)
    in_python.fill()
    assert state(in_c) == state(in_python)
    assert bool(in_c.sizes) == (first != 5 and last != 2)


@needs_compiler
def test_records_by_reference_queues_and_draws_are_the_same() -> None:
    for seed in range(4):
        in_c, in_python = Yard(seed), Yard(seed)
        assert performed_as_c(in_c.shunt)
        in_python.shunt()
        assert in_c.numbers == in_python.numbers
        assert (in_c.moved, in_c.best) == (in_python.moved, in_python.best)
        assert in_c.moved > 1000 and in_c.best > 1 << 20
        assert in_c.random.getstate() == in_python.random.getstate()


@needs_compiler
def test_two_fields_that_refer_to_one_random_draw_from_it() -> None:
    in_c, in_python = Yard(3), Yard(3)
    assert performed_as_c(in_c.draw_from_both)
    in_python.draw_from_both()
    assert (in_c.best, in_c.moved) == (in_python.best, in_python.moved)
    assert in_c.random.getstate() == in_python.random.getstate()


@needs_compiler
def test_a_queue_that_grows_while_it_is_counted_is_left_to_python() -> None:
    yard = Yard(0)
    assert not performed_as_c(yard.grow_while_counting)
    with pytest.raises(RuntimeError, match="mutated"):
        yard.grow_while_counting()


@needs_compiler
def test_a_method_that_an_object_replaces_is_left_to_python() -> None:
    depot = Depot(0, 80)
    depot.shelf.measure = lambda size: 1000 + size  # type: ignore[method-assign]
    assert not performed_as_c(depot.fill)


@needs_compiler
@pytest.mark.parametrize(
    ("method", "first"), [("overflow", 70), ("divide", 0), ("root", 0), ("take", 0), ("compare", 3)]
)
def test_what_c_cannot_end_changes_nothing(method: str, first: int) -> None:
    depot = Depot(first, 3)
    before = copy.deepcopy(state(depot))
    assert not performed_as_c(getattr(depot, method))
    assert state(depot) == before
    depot.first = 1 if method == "compare" else 30
    assert performed_as_c(getattr(depot, method)) == (method != "take")


@needs_compiler
def test_objects_with_other_values_are_left_to_python() -> None:
    depot = Depot(0, 80)
    assert performed_as_c(depot.fill)
    assert not performed_as_c(depot.fill), "its lists are not empty"
    other = Depot(0, 80)
    other.mean = None  # type: ignore[assignment]
    assert not performed_as_c(other.fill)


def test_without_the_library_python_performs_the_method(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing() -> None:
        raise Missing("there is none")

    monkeypatch.setattr(objects, "library", missing)
    assert not performed_as_c(Depot(0, 80).fill) and not performed_as_c(Depot(0, 8).fill)
    assert capsys.readouterr().err.count("there is none") == 1


@pytest.mark.parametrize(
    "method",
    ["with_a_set", "with_a_float_in_a_field", "with_another_type", "with_a_text_in_a_tuple"],
)
def test_what_c_would_do_otherwise_is_refused(method: str) -> None:
    depot = Depot(0, 80)
    found: dict[type, object] = {Depot: depot, DeepShelf: depot.shelf}
    with pytest.raises(TypeError, match="is not restricted"):
        Program(found).method_text(Depot, method, "refused")


@pytest.mark.parametrize(
    "method", ["with_records_compared", "with_pairs_in_a_row", "with_a_call_in_a_pair"]
)
def test_what_c_would_compare_otherwise_is_refused(method: str) -> None:
    with pytest.raises(TypeError, match="is not restricted"):
        Program({Yard: Yard(0)}).method_text(Yard, method, "refused")
