/* The price of each generator as its comment states it, for coll_price_test.c: functions of ranks
 * and data, and a table of them at the end. A new algorithm adds one of each. */
#ifndef TUTTI_TESTS_RUNTIME_COLL_PRICES_H
#define TUTTI_TESTS_RUNTIME_COLL_PRICES_H

#include "runtime/coll/emit.h"
#include "tests/runtime/price.h"

/* What a price is stated for. */
struct price_case {
    uint32_t n;
    uint32_t log;     /* log2 n, rounded up */
    uint32_t members; /* the largest power of two in n */
    uint32_t surplus; /* n - members */
    uint64_t hops;    /* sum of (size - 1) over the axes */
    uint32_t axes;    /* longer than 1 */
    uint32_t group;   /* ranks of the innermost level, or 1 */
    uint64_t c;
};

static struct price ring_allreduce(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = 2 * hops,
                          .messages = 2 * hops,
                          .total = 2 * hops * d->n,
                          .steps = 5 * hops * d->n,
                          .sent = 2 * hops * d->c / d->n,
                          .received = 2 * hops * d->c / d->n,
                          .reduced = hops * d->c / d->n};
}

/* As many bytes and rounds in twice the messages. */
static struct price ring_reducescatter(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = hops,
                          .total = hops * d->n,
                          .steps = 3 * hops * d->n,
                          .sent = hops * d->c,
                          .received = hops * d->c,
                          .reduced = hops * d->c};
}

static struct price ring_allgather(const struct price_case *d)
{
    struct price price = ring_reducescatter(d);

    price.steps = (2 * (d->n - UINT64_C(1)) + 1) * d->n;
    price.reduced = 0;
    price.copied = d->c;
    return price;
}

static struct price chain_broadcast(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = 1,
                          .total = hops,
                          .steps = 2 * hops + 1,
                          .sent = d->c,
                          .received = d->c,
                          .copied = d->c};
}

static struct price chain_reduce(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = 1,
                          .total = hops,
                          .steps = 3 * hops,
                          .sent = d->c,
                          .received = d->c,
                          .reduced = d->c};
}

static struct price ring_alltoall(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = hops,
                          .total = hops * d->n,
                          .steps = (d->n + 3 * hops) * d->n,
                          .sent = d->n * hops / 2 * d->c,
                          .received = d->n * hops / 2 * d->c,
                          .copied = (2 * hops + 1) * d->c};
}

static struct price ring_barrier(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){
        .depth = hops, .messages = hops, .total = hops * d->n, .steps = 2 * hops * d->n};
}

/* Members exchange `log` times; surplus ranks send before and receive after. */
static struct price doubling(const struct price_case *d)
{
    uint64_t more = d->surplus > 0 ? 1 : 0;
    uint64_t log = d->log - more;
    uint64_t total = d->members * log + UINT64_C(2) * d->surplus;

    return (struct price){.depth = log + 2 * more,
                          .messages = log + more,
                          .total = total,
                          .steps = 2 * total + d->members * log + d->surplus,
                          .sent = (log + more) * d->c,
                          .received = (log + more) * d->c,
                          .reduced = (log + more) * d->c};
}

static struct price bruck(const struct price_case *d)
{
    uint64_t total = (uint64_t)d->log * d->n;

    return (struct price){.depth = d->log,
                          .messages = d->log,
                          .total = total,
                          .steps = 2 * total + UINT64_C(3) * d->n,
                          .sent = (d->n - UINT64_C(1)) * d->c,
                          .received = (d->n - UINT64_C(1)) * d->c,
                          .copied = (d->n + UINT64_C(1)) * d->c};
}

static struct price dissemination(const struct price_case *d)
{
    uint64_t total = (uint64_t)d->log * d->n;

    return (struct price){.depth = d->log, .messages = d->log, .total = total, .steps = 2 * total};
}

static struct price rabenseifner(const struct price_case *d)
{
    uint64_t more = d->surplus > 0 ? 1 : 0;
    uint64_t log = d->log - more;
    uint64_t total = 2 * d->members * log + UINT64_C(2) * d->surplus;
    uint64_t once = d->c / d->members * (d->members - 1);

    return (struct price){.depth = 2 * log + 2 * more,
                          .messages = 2 * log + more,
                          .total = total,
                          .steps = 2 * total + d->members * log + d->surplus,
                          .sent = 2 * once + more * d->c,
                          .received = 2 * once + more * d->c,
                          .reduced = once + more * d->c};
}

/* Surplus ranks send n blocks; what their partners take in on top is bounded only. */
static struct price halving(const struct price_case *d)
{
    uint64_t more = d->surplus > 0 ? 1 : 0;
    uint64_t log = d->log - more;
    uint64_t total = d->members * log + UINT64_C(2) * d->surplus;
    uint64_t most = more == 0 ? d->n - UINT64_C(1) : d->n + 2 * (d->members - UINT64_C(1));

    return (struct price){.depth = log + 2 * more,
                          .messages = log + more,
                          .total = total,
                          .steps = 2 * total + d->members * log + UINT64_C(2) * d->surplus,
                          .sent = (d->n - 1 + more) * d->c,
                          .received = most * d->c,
                          .reduced = most * d->c,
                          .copied = more * d->c};
}

static struct price binomial_broadcast(const struct price_case *d)
{
    return (struct price){.depth = d->log,
                          .messages = d->log,
                          .total = d->n - UINT64_C(1),
                          .steps = 2 * (d->n - UINT64_C(1)) + 1,
                          .sent = d->log * d->c,
                          .received = d->c,
                          .copied = d->c};
}

static struct price binomial_reduce(const struct price_case *d)
{
    return (struct price){.depth = d->log,
                          .messages = 1,
                          .total = d->n - UINT64_C(1),
                          .steps = 3 * (d->n - UINT64_C(1)),
                          .sent = d->c,
                          .received = d->log * d->c,
                          .reduced = d->log * d->c};
}

static struct price binomial_allreduce(const struct price_case *d)
{
    return (struct price){.depth = 2 * (uint64_t)d->log,
                          .messages = d->log,
                          .total = 2 * (d->n - UINT64_C(1)),
                          .steps = 5 * (d->n - UINT64_C(1)),
                          .sent = d->log * d->c,
                          .received = d->log * d->c,
                          .reduced = d->log * d->c};
}

static struct price binomial_barrier(const struct price_case *d)
{
    return (struct price){.depth = 2 * (uint64_t)d->log,
                          .messages = d->log,
                          .total = 2 * (d->n - UINT64_C(1)),
                          .steps = 4 * (d->n - UINT64_C(1))};
}

/* 2 (floor(log2(n - 1)) + 1) is twice the smallest k with 2^k >= n. */
static struct price double_tree(const struct price_case *d)
{
    return (struct price){.depth = 2 * (uint64_t)d->log,
                          .messages = 4,
                          .total = 4 * (d->n - UINT64_C(1)),
                          .steps = 10 * (d->n - UINT64_C(1)),
                          .sent = 2 * d->c,
                          .received = 2 * d->c,
                          .reduced = d->c};
}

/* A bound but for messages and steps: one channel uses one of the trees between hosts. */
static struct price chain_tree(const struct price_case *d)
{
    uint64_t others = d->n - UINT64_C(1);

    return (struct price){.depth = 2 * (d->group - 1 + UINT64_C(2) * log2_up(d->n / d->group)),
                          .messages = 4,
                          .total = 2 * others,
                          .steps = 5 * others,
                          .sent = 4 * d->c,
                          .received = 4 * d->c,
                          .reduced = 3 * d->c};
}

static struct price one_shot(const struct price_case *d)
{
    struct price price = ring_reducescatter(d);

    price.depth = 1;
    return price;
}

static struct price two_shot(const struct price_case *d)
{
    struct price price = ring_allreduce(d);

    price.depth = 2;
    return price;
}

static struct price direct_gather(const struct price_case *d)
{
    struct price price = ring_allgather(d);

    price.depth = 1;
    return price;
}

static struct price shift(const struct price_case *d)
{
    return (struct price){.depth = 1,
                          .messages = 1,
                          .total = d->n,
                          .steps = 2 * UINT64_C(1) * d->n,
                          .sent = d->c,
                          .received = d->c};
}

static struct price hierarchical(const struct price_case *d)
{
    struct price price = ring_allreduce(d);

    price.depth = price.messages = 2 * d->hops;
    price.total = 2 * d->hops * d->n;
    price.steps = 5 * d->hops * d->n;
    return price;
}

static struct price torus(const struct price_case *d)
{
    struct price price = hierarchical(d);

    price.messages *= 2 * d->axes;
    price.total *= 2 * d->axes;
    price.steps *= 2 * d->axes;
    return price;
}

static struct price star(const struct price_case *d)
{
    uint64_t others = d->n - UINT64_C(1);

    return (struct price){.depth = 2,
                          .messages = others,
                          .total = 2 * others,
                          .steps = 5 * others,
                          .sent = others * d->c,
                          .received = others * d->c,
                          .reduced = others * d->c};
}

/* `loose`: where n is no power of two the depth and the bytes of a rank are bounds. */
static const struct price_row {
    const char *algorithm;
    enum tutti_collective collective;
    bool loose;
    struct price (*price)(const struct price_case *price_case);
    bool both_ways; /* each message is two, of half the length */
} price_rows[] = {
    {"ring", TUTTI_ALLREDUCE, false, ring_allreduce, false},
    {"ring", TUTTI_REDUCESCATTER, false, ring_reducescatter, false},
    {"ring", TUTTI_ALLGATHER, false, ring_allgather, false},
    {"ring", TUTTI_BROADCAST, false, chain_broadcast, false},
    {"ring", TUTTI_REDUCE_TO_ROOT, false, chain_reduce, false},
    {"ring", TUTTI_ALLTOALL, false, ring_alltoall, false},
    {"ring", TUTTI_BARRIER, false, ring_barrier, false},
    {"ring-bidirectional", TUTTI_ALLREDUCE, false, ring_allreduce, true},
    {"ring-bidirectional", TUTTI_REDUCESCATTER, false, ring_reducescatter, true},
    {"ring-bidirectional", TUTTI_ALLGATHER, false, ring_allgather, true},
    {"ring-bidirectional", TUTTI_BROADCAST, false, chain_broadcast, true},
    {"ring-bidirectional", TUTTI_REDUCE_TO_ROOT, false, chain_reduce, true},
    {"recursive-doubling", TUTTI_ALLREDUCE, true, doubling, false},
    {"recursive-doubling", TUTTI_ALLGATHER, false, bruck, false},
    {"recursive-doubling", TUTTI_BARRIER, false, dissemination, false},
    {"halving-doubling", TUTTI_ALLREDUCE, true, rabenseifner, false},
    {"halving", TUTTI_REDUCESCATTER, true, halving, false},
    {"binomial", TUTTI_ALLREDUCE, true, binomial_allreduce, false},
    {"binomial", TUTTI_BROADCAST, true, binomial_broadcast, false},
    {"binomial", TUTTI_REDUCE_TO_ROOT, true, binomial_reduce, false},
    {"binomial", TUTTI_BARRIER, true, binomial_barrier, false},
    {"double-binary-tree", TUTTI_ALLREDUCE, true, double_tree, false},
    {"chain-tree", TUTTI_ALLREDUCE, true, chain_tree, false},
    {"one-shot", TUTTI_ALLREDUCE, false, one_shot, false},
    {"two-shot", TUTTI_ALLREDUCE, false, two_shot, false},
    {"direct", TUTTI_REDUCESCATTER, false, one_shot, false},
    {"direct", TUTTI_ALLGATHER, false, direct_gather, false},
    {"direct", TUTTI_ALLTOALL, false, direct_gather, false},
    {"direct", TUTTI_SENDRECV, false, shift, false},
    {"hierarchical", TUTTI_ALLREDUCE, false, hierarchical, false},
    {"reduce-broadcast", TUTTI_ALLREDUCE, false, star, false},
    {"torus", TUTTI_ALLREDUCE, false, torus, false},
};

enum { PRICE_ROWS = sizeof(price_rows) / sizeof(price_rows[0]) };

#endif
