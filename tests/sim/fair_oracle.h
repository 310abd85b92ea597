/* An oracle for fair sharing: progressive filling (Bertsekas & Gallager 1992, 6.5.2) by brute force
 * in long doubles, a replay of messages that checks when each may end, and a run of its own. */
#ifndef TUTTI_TESTS_SIM_FAIR_ORACLE_H
#define TUTTI_TESTS_SIM_FAIR_ORACLE_H

#include <math.h>

#include "runtime/units.h"
#include "tests/test.h"

enum { LINKS_MAX = 48, FLOWS_MAX = 40, HOPS_MAX = 12, MESSAGES_MAX = 60 };

struct world {
    uint32_t link_count;
    uint64_t rate[LINKS_MAX + FLOWS_MAX];
    uint32_t flow_count;
    uint32_t hop_count[FLOWS_MAX];
    uint32_t hops[FLOWS_MAX][HOPS_MAX];
};

static inline bool crosses(const struct world *world, uint32_t flow, uint32_t link)
{
    for (uint32_t i = 0; i < world->hop_count[flow]; i++) {
        if (world->hops[flow][i] == link)
            return true;
    }
    return false;
}

/* The oracle: all rates rise together; whoever meets a full link stays. Everything anew each time,
 * loops over everything, nothing clever. */
static inline void fill(const struct world *world, const bool *active, long double *rates)
{
    bool rising[FLOWS_MAX];
    uint32_t rising_count = 0;
    long double level = 0;

    for (uint32_t f = 0; f < world->flow_count; f++) {
        rising[f] = active[f];
        rising_count += active[f];
        rates[f] = 0;
    }
    while (rising_count > 0) {
        long double best = INFINITY;
        uint32_t best_link = 0;

        for (uint32_t l = 0; l < world->link_count; l++) {
            long double taken = 0;
            uint32_t count = 0;

            for (uint32_t f = 0; f < world->flow_count; f++) {
                if (active[f] && crosses(world, f, l)) {
                    count += rising[f];
                    taken += rising[f] ? 0 : rates[f];
                }
            }
            if (count > 0 && ((long double)world->rate[l] - taken) / count < best) {
                best = ((long double)world->rate[l] - taken) / count;
                best_link = l;
            }
        }
        level = best > level ? best : level;
        for (uint32_t f = 0; f < world->flow_count; f++) {
            if (rising[f] && crosses(world, f, best_link)) {
                rates[f] = level;
                rising[f] = false;
                rising_count--;
            }
        }
    }
}

struct transfer {
    uint32_t connection;
    uint64_t bytes;
    tutti_ps start_ps;
    tutti_ps ready_ps; /* when its latency is over */
    tutti_ps slice_ps; /* for which it has its turn before it drains */
    tutti_ps seen_ps;  /* when the model says it ended */
    tutti_ps end_ps;   /* when it did, by the oracle */
    long double left;  /* bytes, by the oracle */
    bool ended;
};

/* The transfer at the head of a connection, or -1; and when it begins to drain. */
static inline int head_of(const struct transfer *transfers, uint32_t count, uint32_t connection,
                          tutti_ps *ret_ps)
{
    tutti_ps free_ps = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (transfers[i].connection != connection)
            continue;
        if (!transfers[i].ended) {
            *ret_ps = transfers[i].slice_ps +
                      (transfers[i].ready_ps > free_ps ? transfers[i].ready_ps : free_ps);
            return (int)i;
        }
        free_ps = transfers[i].end_ps;
    }
    return -1;
}

/* The transfer at the head of its connection, if it drains at `now`; else -1. */
static inline int draining(const struct transfer *transfers, uint32_t count, uint32_t connection,
                           tutti_ps now)
{
    tutti_ps begin_ps;
    int i = head_of(transfers, count, connection, &begin_ps);

    return i >= 0 && begin_ps <= now ? i : -1;
}

/* When the next transfer begins to drain, after `now`. */
static inline tutti_ps next_begin(const struct world *world, const struct transfer *transfers,
                                  uint32_t count, tutti_ps now)
{
    tutti_ps next = INT64_MAX;

    for (uint32_t f = 0; f < world->flow_count; f++) {
        tutti_ps begin_ps;

        if (head_of(transfers, count, f, &begin_ps) >= 0 && begin_ps > now && begin_ps < next)
            next = begin_ps;
    }
    return next;
}

/* The oracle of times replays what the model did event by event, with all rates computed
 * anew and all bytes counted in long doubles. When the model says that a message has ended, its
 * bytes must be gone, and must not have been gone a picosecond before. Following the model's whole
 * picoseconds keeps the tolerance at 1 ps: free-running, a rounding of one message can move others
 * by more (a small rate times a late neighbour). */
static inline void oracle_replay(const struct world *world, struct transfer *transfers,
                                 uint32_t count, uint64_t round)
{
    tutti_ps now = 0;
    uint32_t ended = 0;

    for (uint32_t i = 0; i < count; i++)
        transfers[i].left = (long double)transfers[i].bytes;
    while (ended < count) {
        bool active[FLOWS_MAX];
        long double rates[FLOWS_MAX];
        tutti_ps next = next_begin(world, transfers, count, now);

        for (uint32_t f = 0; f < world->flow_count; f++)
            active[f] = draining(transfers, count, f, now) >= 0;
        fill(world, active, rates);
        for (uint32_t i = 0; i < count; i++) {
            if (!transfers[i].ended && transfers[i].seen_ps < next)
                next = transfers[i].seen_ps;
        }
        REQUIRE(next >= now && next < INT64_MAX);
        for (uint32_t f = 0; f < world->flow_count; f++) {
            int i = draining(transfers, count, f, now);
            long double ps;

            if (i < 0)
                continue;
            transfers[i].left -= rates[f] * (long double)(next - now) * 1e-12L;
            ps = transfers[i].left / rates[f] * 1e12L; /* still to go */
            if (transfers[i].seen_ps == next ? ps > 1e-5L || ps <= -1 - 1e-5L : ps < -1e-5L)
                TEST_FAIL("world %" PRIu64 " message %d: at %" PRId64 " ps, seen to end at %" PRId64
                          " ps, %.6Lf ps are to go",
                          round, i, next, transfers[i].seen_ps, ps);
            transfers[i].ended = transfers[i].seen_ps == next;
            transfers[i].end_ps = next;
            ended += transfers[i].ended;
        }
        now = next;
    }
}

/* The oracle without the model: works out for itself when each transfer ends, rounded up to whole
 * picoseconds, into `ends`. */
static inline void oracle_run(const struct world *world, struct transfer *transfers, uint32_t count,
                              tutti_ps *ends)
{
    tutti_ps now = 0;
    uint32_t ended = 0;

    for (uint32_t i = 0; i < count; i++) {
        transfers[i].left = (long double)transfers[i].bytes;
        transfers[i].ended = false;
    }
    while (ended < count) {
        bool active[FLOWS_MAX];
        long double rates[FLOWS_MAX];
        tutti_ps next = next_begin(world, transfers, count, now);

        for (uint32_t f = 0; f < world->flow_count; f++)
            active[f] = draining(transfers, count, f, now) >= 0;
        fill(world, active, rates);
        for (uint32_t f = 0; f < world->flow_count; f++) {
            int i = draining(transfers, count, f, now);
            /* What is left of a rounding error, a millionth of a picosecond, counts as nothing. */
            tutti_ps end =
                i < 0 ? INT64_MAX
                      : now + (tutti_ps)ceill(transfers[i].left / rates[f] * 1e12L - 1e-6L);

            next = end < next ? end : next;
        }
        REQUIRE(next >= now && next < INT64_MAX);
        for (uint32_t f = 0; f < world->flow_count; f++) {
            int i = draining(transfers, count, f, now);

            if (i < 0)
                continue;
            transfers[i].left -= rates[f] * (long double)(next - now) * 1e-12L;
            if (transfers[i].left > rates[f] * 1e-18L)
                continue;
            transfers[i].ended = true;
            transfers[i].end_ps = ends[i] = next;
            ended++;
        }
        now = next;
    }
}

#endif
