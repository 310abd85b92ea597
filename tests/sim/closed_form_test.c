/* The simulator with `alphabeta` equals the closed forms of the literature, to the picosecond,
 * where every rank does the same: rings, all-pairs, doubling and halving.
 *
 * a is the latency of a message, b(x) the time of x elements on the wire, n the ranks, c the
 * count, L = log2 n. Forms are derived here from the algorithms as published, not from the
 * generators. */
#include "tests/sim/closed_form.h"

/* ---- one message at a time: one channel, one chunk, one slice -------------------------------- */

/* The longest chunk makes 2(n-1) hops, and nobody ever waits for longer ones (Patarasuk & Yuan
 * 2009): 2(n-1) (a + b(c/n rounded up)). */
static tutti_ps ring_allreduce(uint32_t n, uint64_t c, const struct cost *cost)
{
    return 2 * (n - 1) * (alpha(cost) + beta(cost, up(c, n)));
}

/* The longer half decides where each way has links of its own. */
static tutti_ps ring_both_ways(uint32_t n, uint64_t c, const struct cost *cost)
{
    return ring_allreduce(n, up(c, 2), cost);
}

/* n-1 hops of a block. */
static tutti_ps ring_blocks(uint32_t n, uint64_t c, const struct cost *cost)
{
    return (n - 1) * (alpha(cost) + beta(cost, c));
}

/* Forwarding: n-1, n-2, ..., 1 blocks. */
static tutti_ps ring_alltoall(uint32_t n, uint64_t c, const struct cost *cost)
{
    tutti_ps sum = 0;

    for (uint32_t t = 1; t < n; t++)
        sum += alpha(cost) + beta(cost, (n - t) * c);
    return sum;
}

/* L (a + b(c)): Thakur, Rabenseifner & Gropp 2005, 4.2. */
static tutti_ps doubling(uint32_t n, uint64_t c, const struct cost *cost)
{
    return log_up(n) * (alpha(cost) + beta(cost, c));
}

/* Bruck 1997: message k has 2^k blocks, the last what is missing. */
static tutti_ps bruck(uint32_t n, uint64_t c, const struct cost *cost)
{
    tutti_ps sum = 0;

    for (uint64_t known = 1; known < n; known *= 2)
        sum += alpha(cost) + beta(cost, (known < n - known ? known : n - known) * c);
    return sum;
}

/* ceil(log2 n) empty messages (Hensgen, Finkel & Manber 1988). */
static tutti_ps dissemination(uint32_t n, uint64_t c, const struct cost *cost)
{
    (void)c;
    return log_up(n) * alpha(cost);
}

/* Half of each block, or of all, each way: (n-1) (a + b(c/2)). */
static tutti_ps blocks_both_ways(uint32_t n, uint64_t c, const struct cost *cost)
{
    return (n - 1) * (alpha(cost) + beta(cost, up(c, 2)));
}

/* Rabenseifner: 2 sum over k of (a + b(c / 2^k)), for c a multiple of n. */
static tutti_ps rabenseifner(uint32_t n, uint64_t c, const struct cost *cost)
{
    tutti_ps sum = 0;

    for (uint32_t k = 1; k <= log_up(n); k++)
        sum += 2 * (alpha(cost) + beta(cost, c >> k));
    return sum;
}

/* n/2, n/4, ..., 1 blocks. */
static tutti_ps halving_blocks(uint32_t n, uint64_t c, const struct cost *cost)
{
    tutti_ps sum = 0;

    for (uint64_t blocks = n / 2; blocks > 0; blocks /= 2)
        sum += alpha(cost) + beta(cost, blocks * c);
    return sum;
}

/* n-1 messages leave one behind the other; the last has latency a: (n-1) b(c) + a. */
static tutti_ps all_pairs(uint32_t n, uint64_t c, const struct cost *cost)
{
    return (n - 1) * beta(cost, c) + alpha(cost);
}

/* Where everybody has a link to everybody they leave at once. */
static tutti_ps one_message(uint32_t n, uint64_t c, const struct cost *cost)
{
    (void)n;
    return alpha(cost) + beta(cost, c);
}

/* Two-shot over one link, for c a multiple of n: twice all_pairs of c/n. */
static tutti_ps two_shot_even(uint32_t n, uint64_t c, const struct cost *cost)
{
    return 2 * all_pairs(n, c / n, cost);
}

/* Max-plus recurrence for other c. Part p is of p's size. Rank r hears from r-s when that has sent
 * the parts of r-s+1 .. r; when all are there it sends its own part n-1 times. */
static tutti_ps two_shot(uint32_t n, uint64_t c, const struct cost *cost)
{
    tutti_ps latest = 0;

    for (uint32_t r = 0; r < n; r++) {
        tutti_ps summed = 0;
        tutti_ps sent = 0; /* when its link is free */

        for (uint32_t s = 1; s < n; s++) {
            tutti_ps before = 0;

            for (uint32_t j = 1; j <= s; j++)
                before += beta(cost, part(c, (r + n - s + j) % n, n));
            summed = later(summed, before + alpha(cost));
            sent += beta(cost, part(c, (r + s) % n, n));
        }
        latest =
            later(latest, later(summed, sent) + (n - 1) * beta(cost, part(c, r, n)) + alpha(cost));
    }
    return latest;
}

static tutti_ps two_shot_mesh(uint32_t n, uint64_t c, const struct cost *cost)
{
    return 2 * (alpha(cost) + beta(cost, up(c, n)));
}

enum machine { SWITCH, MESH };

enum only { ALWAYS, POWERS = 1, MULTIPLES = 2, FROM_3 = 4 };

static const struct form {
    const char *algorithm;
    enum tutti_collective collective;
    enum machine machine;
    unsigned only;
    tutti_ps (*time)(uint32_t n, uint64_t count, const struct cost *cost);
} forms[] = {
    {"ring", TUTTI_ALLREDUCE, SWITCH, ALWAYS, ring_allreduce},
    {"ring", TUTTI_ALLREDUCE, MESH, ALWAYS, ring_allreduce},
    {"ring-bidirectional", TUTTI_ALLREDUCE, MESH, FROM_3, ring_both_ways},
    {"ring-bidirectional", TUTTI_REDUCESCATTER, MESH, FROM_3, blocks_both_ways},
    {"ring-bidirectional", TUTTI_ALLGATHER, MESH, FROM_3, blocks_both_ways},
    {"ring-bidirectional", TUTTI_BROADCAST, MESH, FROM_3, blocks_both_ways},
    {"ring-bidirectional", TUTTI_REDUCE_TO_ROOT, MESH, FROM_3, blocks_both_ways},
    {"hierarchical", TUTTI_ALLREDUCE, SWITCH, ALWAYS, ring_allreduce}, /* of one level: a ring */
    {"ring", TUTTI_REDUCESCATTER, SWITCH, ALWAYS, ring_blocks},
    {"ring", TUTTI_ALLGATHER, SWITCH, ALWAYS, ring_blocks},
    {"ring", TUTTI_ALLTOALL, SWITCH, ALWAYS, ring_alltoall},
    {"ring", TUTTI_BROADCAST, SWITCH, ALWAYS, ring_blocks},
    {"ring", TUTTI_REDUCE_TO_ROOT, SWITCH, ALWAYS, ring_blocks},
    {"ring", TUTTI_BARRIER, SWITCH, ALWAYS, ring_blocks},
    {"recursive-doubling", TUTTI_ALLREDUCE, SWITCH, POWERS, doubling},
    {"recursive-doubling", TUTTI_ALLGATHER, SWITCH, ALWAYS, bruck},
    {"recursive-doubling", TUTTI_BARRIER, SWITCH, ALWAYS, dissemination},
    {"halving-doubling", TUTTI_ALLREDUCE, SWITCH, POWERS | MULTIPLES, rabenseifner},
    {"halving", TUTTI_REDUCESCATTER, SWITCH, POWERS, halving_blocks},
    {"one-shot", TUTTI_ALLREDUCE, SWITCH, ALWAYS, all_pairs},
    {"one-shot", TUTTI_ALLREDUCE, MESH, ALWAYS, one_message},
    {"two-shot", TUTTI_ALLREDUCE, SWITCH, MULTIPLES, two_shot_even},
    {"two-shot", TUTTI_ALLREDUCE, SWITCH, ALWAYS, two_shot},
    {"two-shot", TUTTI_ALLREDUCE, MESH, ALWAYS, two_shot_mesh},
    {"direct", TUTTI_REDUCESCATTER, SWITCH, ALWAYS, all_pairs},
    {"direct", TUTTI_REDUCESCATTER, MESH, ALWAYS, one_message},
    {"direct", TUTTI_ALLGATHER, SWITCH, ALWAYS, all_pairs},
    {"direct", TUTTI_ALLGATHER, MESH, ALWAYS, one_message},
    {"direct", TUTTI_ALLTOALL, SWITCH, ALWAYS, all_pairs},
    {"direct", TUTTI_ALLTOALL, MESH, ALWAYS, one_message},
    {"direct", TUTTI_SENDRECV, SWITCH, ALWAYS, one_message},
};

static void ask(const struct form *form, uint32_t n, uint64_t count, const struct tutti_topo *topo,
                const struct cost *cost)
{
    struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_coll_params params = {.collective = form->collective,
                                       .dtype = TUTTI_FLOAT32,
                                       .root = n / 3,
                                       .chunk_bytes = GIANT_CHUNK};

    if ((form->only & POWERS) != 0 && !power_of_two(n))
        return;
    if ((form->only & FROM_3) != 0 && n < 3)
        return;
    if ((form->only & MULTIPLES) != 0)
        count = up(count, n) * n;
    if (form->collective == TUTTI_BARRIER)
        count = 0;
    params.count = count;
    expect(topo, form->algorithm, &params, &shape, cost, launch(cost) + form->time(n, count, cost));
}

TEST(one_message_at_a_time)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < COST_COUNT; i++) {
            struct cost cost = cost_number(i, TUTTI_HOP_NVLINK);
            struct tutti_topo *machines[] = {machine_switch(n, &cost), machine_mesh(n, &cost)};

            for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++)
                for (unsigned s = 0; s < FORM_SIZES; s++)
                    if (test_full || (i + s + n + f) % COST_COUNT == 0)
                        ask(&forms[f], n, size_number(s, n), machines[forms[f].machine], &cost);
            for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++)
                tutti_topo_free(machines[m]);
        }
    }
}

/* Those that closed_form_tree_test.c and closed_form_nest_test.c have. */
static const struct {
    const char *algorithm;
    enum tutti_collective collective;
} elsewhere[] = {
    {"binomial", TUTTI_ALLREDUCE},         {"binomial", TUTTI_BROADCAST},
    {"binomial", TUTTI_REDUCE_TO_ROOT},    {"binomial", TUTTI_BARRIER},
    {"reduce-broadcast", TUTTI_ALLREDUCE}, {"double-binary-tree", TUTTI_ALLREDUCE},
    {"chain-tree", TUTTI_ALLREDUCE},       {"torus", TUTTI_ALLREDUCE},
};

static bool has_form(const char *algorithm, enum tutti_collective collective)
{
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++)
        if (forms[f].collective == collective && strcmp(forms[f].algorithm, algorithm) == 0)
            return true;
    for (size_t f = 0; f < sizeof(elsewhere) / sizeof(elsewhere[0]); f++)
        if (elsewhere[f].collective == collective && strcmp(elsewhere[f].algorithm, algorithm) == 0)
            return true;
    return false;
}

TEST(no_generator_is_without_a_form)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < TUTTI_CUSTOM; c++)
            if ((table[i].collectives & (1u << c)) != 0 &&
                !has_form(table[i].name, (enum tutti_collective)c))
                TEST_FAIL("%s of %s has no closed form to be held to (a row of `forms`)",
                          table[i].name, tutti_collective_name((enum tutti_collective)c));
}
