"""The best of K runs: the law of K, its certificate, and the output law of small mechanisms in exact arithmetic."""

import hashlib
import itertools
import json
import math
from decimal import localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from labeldp.accounting.cost import Cost
from labeldp.accounting.rounding import log_ratio_up
from labeldp.accounting.selection import halting, selection_base, selection_cost
from labeldp.entropy import SecureEntropy
from labeldp.errors import AccountingError, InputError
from labeldp.mechanisms.repeats import MAX_MEAN, MAX_SHAPE, Repeats
from labeldp.mechanisms.table import WHOLE

mpmath.mp.dps = 60

MEANS = (1.5, 2.0, 10.0, 100.0)
SHAPES = (0.0, 0.5, 1.0, 2.0)
LAWS = [Repeats(mean=mean, shape=shape) for mean in MEANS for shape in SHAPES]


def name(law):
    return f"{law.mean:g}-{law.shape:g}"


def cost(weights, shape, epsilon):
    return selection_cost(Cost(pure=epsilon), halting(weights, shape), shape).pure


# ── the law of K ──


@pytest.mark.parametrize("shape", [0.0, 1e-300, 0.1, 1.0, MAX_SHAPE])
@pytest.mark.parametrize("mean", [1 + 2**-50, 2.0, 17.3, MAX_MEAN])
def test_integers_add_up_and_the_mean_is_what_was_asked_for(mean, shape):
    weights = Repeats(mean=mean, shape=shape).weights
    assert sum(weights) == WHOLE
    assert min(weights) >= 1
    assert len(weights) <= 65_536
    assert Fraction(sum(k * w for k, w in enumerate(weights, 1)), WHOLE) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_the_law_is_the_papers(law):
    """Papernot & Steinke 2022, Definition 1, as it stands; what rounding moves is 1e-12 in all."""
    gamma, eta = mpmath.mpf(law.halting.numerator) / law.halting.denominator, mpmath.mpf(law.shape)
    moved = mpmath.mpf(0)
    for k, weight in enumerate(law.weights, 1):
        if law.shape == 0:
            p = (1 - gamma) ** k / (k * mpmath.log(1 / gamma))
        else:
            p = (1 - gamma) ** k / (gamma**-eta - 1) * mpmath.rf(eta, k) / mpmath.factorial(k)
        moved += abs(p - mpmath.mpf(weight) / WHOLE)
        if k > 300:
            break
    assert moved < 1e-12


def test_weights_are_the_same_on_every_machine():
    # Written down once, by Python 3.11 on x86-64: a cost that was stated last year must be found again.
    for (mean, shape), start in GOLDEN.items():
        digest = hashlib.sha256(json.dumps(Repeats(mean=mean, shape=shape).weights).encode())
        assert digest.hexdigest()[:16] == start, (mean, shape)


def test_the_callers_decimal_context_does_not_matter():
    with localcontext() as context:
        context.prec = 3
        law = Repeats(mean=33.3, shape=0.5)
        costs = law.cost(Cost(pure=1.0)), law.base_epsilon(2.0)
    again = Repeats(mean=33.3, shape=0.5)
    assert law.weights == again.weights
    assert costs == (again.cost(Cost(pure=1.0)), again.base_epsilon(2.0))


def test_geometric_of_mean_two_is_halves():
    assert Repeats(mean=2).weights == (2**63 + 1, *(2**k for k in range(62, -1, -1)))


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_gamma_agrees_with_dp_accounting(law):
    from dp_accounting.rdp import rdp_privacy_accountant as theirs

    gamma = theirs._gamma_truncated_negative_binomial(law.shape, law.mean)
    assert float(law.halting) == pytest.approx(gamma, rel=1e-8)


class Words:
    """An entropy source that deals given bytes."""

    secure = False

    def __init__(self, data):
        self.data = data

    def bytes(self, count):
        part, self.data = self.data[:count], self.data[count:]
        return part


def test_draw_counts_from_one():
    law = Repeats(mean=3.0)
    assert law.draw(Words(bytes(16))) == 1
    assert law.draw(Words(b"\xff" * 16)) == len(law.weights)


@pytest.mark.parametrize(("mean", "shape"), [(2.0, 1.0), (10.0, 0.0), (40.0, 0.5)])
def test_draws_fit_the_weights(mean, shape):
    """Chi-squared over bins of 1% or more; false alarm 1e-7 each."""
    law, entropy, count = Repeats(mean=mean, shape=shape), SecureEntropy(), 20_000
    drawn = np.array([law.draw(entropy) for _ in range(count)])
    p = np.array(law.weights) / WHOLE
    edges, mass = [0], 0.0
    for k, weight in enumerate(p, 1):
        mass += weight
        if mass >= 0.01 and p[k:].sum() >= 0.01:
            edges.append(k)
            mass = 0.0
    edges.append(len(p))
    expected = np.array([p[a:b].sum() for a, b in itertools.pairwise(edges)])
    seen = np.histogram(drawn, bins=np.array(edges) + 0.5)[0]
    assert seen.sum() == count
    assert stats.chisquare(seen, expected / expected.sum() * count).pvalue > 1e-7


# ── the certificate: a naive reference, the law of the best output in exact arithmetic ──


def best_law(weights, q):
    """P[best = y] for outputs in order, the worst first: f(Q(≤ y)) − f(Q(< y))."""
    total = sum(weights)

    def f(z):
        value = 0 * z
        for w in reversed(weights):
            value = (value + w) * z
        return value / total

    ends = [f(z) for z in itertools.accumulate(q, initial=0 * q[0])]
    return [b - a for a, b in itertools.pairwise(ends)]


def worst_log_ratio(a, b):
    return max(abs(mpmath.log(mpmath.mpf(x.numerator) * y.denominator / (mpmath.mpf(x.denominator) * y.numerator)))
               for x, y in zip(a, b, strict=True))  # fmt: skip


def normal(counts):
    return [Fraction(c, sum(counts)) for c in counts]


def base_epsilon(p, q):
    """The smallest ε of this pair, rounded up."""
    worst = max(max(a / b, b / a) for a, b in zip(p, q, strict=True))
    return log_ratio_up(worst.numerator, worst.denominator)


def test_the_reference_is_the_algorithm():
    """All sequences of up to four runs; the best stays, of equals the first. Ties in the order (here 1 and 2) are allowed."""
    weights, q = [5, 3, 2, 1], normal([4, 1, 3, 2])
    rank = [0, 1, 1, 2]
    law = [Fraction(0)] * 4
    for k, w in enumerate(weights, 1):
        for runs in itertools.product(range(4), repeat=k):
            best = max(range(k), key=lambda i: (rank[runs[i]], -i))
            law[runs[best]] += Fraction(w, sum(weights)) * math.prod(q[y] for y in runs)
    worst, tied, top = best_law(weights, [q[0], q[1] + q[2], q[3]])
    assert law == [worst, tied * q[1] / (q[1] + q[2]), tied * q[2] / (q[1] + q[2]), top]


pairs = st.integers(2, 6).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(1, 1000), min_size=n, max_size=n) for _ in range(2)])
)


@given(pairs, st.sampled_from([law for law in LAWS if law.mean <= 2]))
@settings(max_examples=60)
def test_no_pair_of_mechanisms_tells_more_than_the_certificate(pair, law):
    p, q = map(normal, pair)
    epsilon = base_epsilon(p, q)
    assume(epsilon > 0)
    measured = worst_log_ratio(best_law(law.weights, p), best_law(law.weights, q))
    assert measured <= law.cost(Cost(pure=epsilon)).pure


@given(pairs, st.lists(st.integers(1, 10**6), min_size=1, max_size=12), st.floats(0, 40))
def test_any_weights_have_a_certificate_that_holds(pair, weights, shape):
    p, q = map(normal, pair)
    epsilon = base_epsilon(p, q)
    assume(epsilon > 0)
    falling = [min(weights[: k + 1]) for k in range(len(weights))]
    for table in (weights, falling):
        try:
            certificate = cost(table, shape, epsilon)
        except AccountingError:
            continue
        assert worst_log_ratio(best_law(table, p), best_law(table, q)) <= certificate
    assert cost(falling, 1.0, epsilon) <= 3 * epsilon * (
        1 + 1e-12
    )  # weights that never grow are within the geometric family


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(2, 60), st.sampled_from(LAWS[:8]))
@settings(max_examples=60)
def test_extreme_pairs(low, y, high, e, law):
    """Every ratio e or 1/e, as far as the sum allows: "worse" and y rarer for the neighbour, "better" more frequent, and mirrored."""
    p = normal([low, y, high])
    q = [p[0] / e, p[1] / e, 1 - (p[0] + p[1]) / e]
    if q[2] > p[2] * e:
        q = [1 - p[1] / e - p[2] * e, p[1] / e, p[2] * e]
    assume(q[0] <= p[0] * e)  # otherwise y is too frequent for so large a change
    assert sum(q) == 1
    assert log_ratio_up(e, 1) == base_epsilon(p, q)
    for a, b in ((p, q), (p[::-1], q[::-1])):
        measured = worst_log_ratio(best_law(law.weights, a), best_law(law.weights, b))
        assert measured <= law.cost(Cost(pure=log_ratio_up(e, 1))).pure


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 4.0])
@pytest.mark.parametrize("law", [law for law in LAWS if len(law.weights) < 5000], ids=name)
def test_a_mechanism_attains_the_certificate(law, epsilon):
    """Three outputs, at the worst z of the proof: worse, y (very rare), better. So no smaller certificate holds for every base."""
    e, rare = mpmath.exp(epsilon), mpmath.mpf(10) ** -12
    z = e / (e + 1)
    p = [z - rare, rare, 1 - z]
    q = [(z - rare) / e, rare / e, (1 - z) * e]
    assert sum(q) == pytest.approx(1, abs=1e-50)
    a, b = best_law(law.weights, p), best_law(law.weights, q)
    measured, certificate = mpmath.log(a[1] / b[1]), law.cost(Cost(pure=epsilon)).pure
    assert measured <= certificate
    assert measured >= certificate * (1 - mpmath.mpf(10) ** -8)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
@pytest.mark.parametrize("law", LAWS, ids=name)
def test_the_ratio_is_nowhere_larger_than_the_certificate_says(law, epsilon):
    """sup f′(z)/f′(z′) of the table itself, on a grid of 1 − z that reaches 1e-9; floats sum positive terms to 1e-10."""
    coefficients = np.array(law.weights, dtype=np.float64) * np.arange(1, len(law.weights) + 1)

    def derivative(log_z):
        return float(np.dot(coefficients, np.exp(np.arange(len(coefficients)) * log_z)))

    kink = 1 / (math.exp(epsilon) + 1)
    measured = []
    for u in (*np.geomspace(1e-9, kink, 25), *np.linspace(kink, 0.99, 15)):
        further = min(math.exp(epsilon) * u, -math.expm1(math.log1p(-u) - epsilon))  # 1 − z′
        measured.append(math.log(derivative(math.log1p(-u)) / derivative(math.log1p(-further))))
    extra = law.cost(Cost(pure=epsilon)).pure - epsilon
    assert max(measured) <= extra + 1e-10
    assert max(measured) >= extra - 1e-9
    assert max(measured) == pytest.approx(measured[24], abs=1e-10)  # at the kink


# ── the certificate: its formula and its rounding ──


@given(st.floats(1e-6, 32), st.fractions(0, 1), st.floats(0, MAX_SHAPE))
def test_the_cost_is_rounded_up_and_tight(epsilon, gamma, shape):
    e, g = mpmath.exp(epsilon), mpmath.mpf(gamma.numerator) / gamma.denominator
    exact = epsilon + (1 + mpmath.mpf(shape)) * mpmath.log((e + g) / (1 + g * e))
    ours = selection_cost(Cost(pure=epsilon), gamma, shape).pure
    assert exact <= ours <= exact * (1 + mpmath.mpf(2) ** -51)
    assert epsilon <= ours <= (2 + shape) * epsilon * (1 + 1e-15)


@given(st.floats(1e-6, 32), st.fractions(0, 1), st.floats(0, MAX_SHAPE))
def test_the_base_inverts_the_cost_on_the_safe_side(total, gamma, shape):
    base = selection_base(total, gamma, shape)
    assert total / (2 + shape) * (1 - 1e-12) <= base <= total
    assert selection_cost(Cost(pure=base), gamma, shape).pure <= total
    if base < total:
        assert selection_cost(Cost(pure=math.nextafter(base, 64)), gamma, shape).pure > total


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8), st.sampled_from([0.0, 0.3, 1.0, 3.0]))
def test_halting_is_the_slowest_fall(weights, shape):
    worst = max(
        (Fraction(k + 1) * weights[k] / (k + Fraction(shape)) / weights[k - 1] for k in range(1, len(weights))),
        default=Fraction(0),
    )
    if worst <= 1:
        assert halting(weights, shape) == 1 - worst
        for cut in range(1, len(weights)):
            assert halting(weights[:cut], shape) >= halting(weights, shape)  # the tail's end costs nothing
    else:
        with pytest.raises(AccountingError, match="fall more slowly"):
            halting(weights, shape)


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_between_one_run_and_two_plus_eta(law):
    for epsilon in (1e-6, 0.1, 1.0, 4.0, 32.0):
        ours = law.cost(Cost(pure=epsilon)).pure
        assert epsilon < ours < (2 + law.shape) * epsilon
    assert law.cost(Cost()) == Cost()
    assert law.cost(Cost(pure=law.base_epsilon(4.0))).within(Cost(pure=4.0))


def test_known_values():
    # By hand: (2 + 1/10)/(1 + 2/10) = 7/4, (3 + 1/2)/(1 + 3/2) = 7/5.
    assert Repeats(mean=10).cost(Cost(pure=math.log(2))).pure == pytest.approx(math.log(2 * 1.75**2), rel=1e-14)
    assert Repeats(mean=2).cost(Cost(pure=math.log(3))).pure == pytest.approx(math.log(3 * 1.4**2), rel=1e-14)


# ── another library ──


def theirs(law, epsilon, orders):
    """dp_accounting's Rényi costs of the selection. The base is binary randomized response, of all ε-DP bases the least private."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    base = dp_accounting.dp_event.RandomizedResponseDpEvent(2 / (math.exp(epsilon) + 1), 2)
    accountant = RdpAccountant(orders, dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(base, law.mean, law.shape))
    return accountant


@pytest.mark.parametrize("epsilon", [0.1, 4.0])
@pytest.mark.parametrize("law", LAWS, ids=name)
def test_dp_accounting_says_no_less_and_never_contradicts(law, epsilon):
    """Theorem 2 of Papernot & Steinke is not tight: at tiny δ ours is below it; and what our table does is within it at every order."""
    orders = np.array([1.1, 1.5, 2, 3, 5, 8, 16, 32, 64, 256, 1e3, 1e4, 1e6, 1e8])
    accountant = theirs(law, epsilon, orders)
    ours = law.cost(Cost(pure=epsilon)).pure
    limit = accountant.get_epsilon(1e-12)
    assert ours <= limit * (1 + 1e-9)
    assert limit <= (2 + law.shape) * epsilon * (1 + 1e-3)
    # Randomized response itself, run so often, its best output released.
    e = math.exp(epsilon)
    p, q = [1 / (e + 1), e / (e + 1)], [e / (e + 1), 1 / (e + 1)]
    a, b = (np.array(best_law(law.weights, x)) for x in (p, q))
    for first, second in ((a, b), (b, a)):
        assert np.abs(np.log(first / second)).max() <= ours * (1 + 1e-9)
        for order, most in zip(orders, accountant._rdp, strict=True):
            if order <= 64:
                assert math.log(np.sum(first**order / second ** (order - 1))) / (order - 1) <= most * (1 + 1e-9) + 1e-12


# ── words ──


def test_json_and_repr():
    law = Repeats(mean=10, shape=0.5)
    assert repr(law) == "Repeats(mean=10.0, shape=0.5)"
    assert Repeats.from_json(json.loads(json.dumps(law.to_json()))) == law
    with pytest.raises(InputError, match="mean must be a number"):
        Repeats.from_json({"shape": 1.0})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mean": 1.0}, "above 1 and at most 500"),
        ({"mean": 0.5}, "above 1 and at most 500"),
        ({"mean": -3}, "above 1 and at most 500"),
        ({"mean": math.nan}, "above 1 and at most 500"),
        ({"mean": math.inf}, "above 1 and at most 500"),
        ({"mean": 1e9}, "above 1 and at most 500; got 1e[+]09"),
        ({"mean": "ten"}, "mean must be a number"),
        ({"mean": True}, "mean must be a number"),
        ({"mean": 10.0, "shape": -0.5}, "from 0 [(]logarithmic[)]"),
        ({"mean": 10.0, "shape": math.nan}, "from 0 [(]logarithmic[)]"),
        ({"mean": 10.0, "shape": math.inf}, "from 0 [(]logarithmic[)]"),
        ({"mean": 10.0, "shape": None}, "shape must be a number"),
    ],
)
def test_errors_teach(parameters, message):
    with pytest.raises(InputError, match=message):
        Repeats(**parameters)


def test_only_pure_costs():
    law = Repeats(mean=10.0)
    for base in (Cost(pure=1.0, gaussian=0.1), Cost(gaussian=0.1, slack_mass=1e-9), Cost(pure=1.0, slack_mass=1e-9)):
        with pytest.raises(AccountingError, match="every run is pure"):
            law.cost(base)
    for total in (0.0, -1.0, math.nan, 1e3):
        with pytest.raises(InputError, match="total must be"):
            law.base_epsilon(total)


@pytest.mark.parametrize("weights", [[], [0, 1], [1, 0, 1]])
def test_weights_without_gaps(weights):
    with pytest.raises(AccountingError, match="positive weights"):
        halting(weights, 1.0)


GOLDEN = {
    (2.0, 1.0): "06726b4644da4257",
    (10.0, 0.0): "e4bdbb7913af2ff2",
    (10.0, 1.0): "a300229392b17f42",
    (33.3, 0.5): "38ae0b2e8e17f0d1",
    (500.0, 0.0): "5904b69e3ee2d4c7",
    (500.0, 4.0): "7bd565379b002293",
}
