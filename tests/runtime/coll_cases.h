/* Cases for tests of generators: shapes that every algorithm fits, and ways to cut the data. */
#ifndef TUTTI_TESTS_RUNTIME_COLL_CASES_H
#define TUTTI_TESTS_RUNTIME_COLL_CASES_H

#include "runtime/coll.h"
#include "tests/test.h"

enum { CASE_RANKS_MAX = 64 };

struct coll_manner {
    uint32_t channel_count;
    uint64_t chunk_bytes;
    uint32_t slice_count;
    uint32_t slot_count;
};

/* Adds `size` to the levels, innermost first, and to the grid. */
static inline void case_add(struct tutti_shape *shape, uint32_t size)
{
    shape->level[shape->level_count++] = size;
    shape->wrap[shape->dim_count] = size > 2;
    shape->dim[shape->dim_count++] = size;
}

/* n ranks on two rings (up, and down from the middle), its prime factors as levels and grid.
 * orders[2 * n] is the caller's and outlives the shape. */
static inline struct tutti_shape case_shape(uint32_t n, uint32_t *orders)
{
    struct tutti_shape shape = tutti_shape_flat(n);
    uint32_t rest = n;

    for (uint32_t i = 0; i < n; i++) {
        orders[i] = i;
        orders[n + i] = (n - 1 - i + n / 2) % n;
    }
    shape.orders = orders;
    shape.order_count = 2;
    for (uint32_t f = 2; f <= rest; f++)
        for (; rest % f == 0; rest /= f)
            case_add(&shape, f);
    if (n == 1)
        case_add(&shape, 1);
    return shape;
}

/* The ways to write n as an ordered product of factors from 2 up, each as levels and grid: calls
 * `visit` for each. n <= CASE_RANKS_MAX, so that there are at most 6 factors. */
static inline void case_factorings(const struct tutti_shape *so_far, uint32_t rest,
                                   void (*visit)(const struct tutti_shape *shape, void *user),
                                   void *user)
{
    if (rest == 1)
        visit(so_far, user);
    for (uint32_t f = 2; f <= rest; f++) {
        struct tutti_shape next = *so_far;

        if (rest % f != 0)
            continue;
        case_add(&next, f);
        case_factorings(&next, rest / f, visit, user);
    }
}

/* "allreduce ring n=5 count=7 ..." */
static inline const char *case_text(const char *algorithm, const struct tutti_coll_params *p,
                                    const struct tutti_shape *shape, char *buf, size_t buf_bytes)
{
    int used = snprintf(buf, buf_bytes,
                        "%s %s n=%u count=%u root=%u channels=%u chunk=%u slices=%u "
                        "slots=%u levels=",
                        tutti_collective_name(p->collective), algorithm, shape->rank_count,
                        (unsigned)p->count, p->root, p->channel_count, (unsigned)p->chunk_bytes,
                        p->slice_count, p->slot_count);

    for (uint32_t i = 0; i < shape->level_count && used > 0 && (size_t)used < buf_bytes; i++)
        used += snprintf(buf + used, buf_bytes - (size_t)used, "%s%u", i == 0 ? "" : "x",
                         shape->level[i]);
    return buf;
}

#endif
