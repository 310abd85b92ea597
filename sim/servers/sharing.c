/* Max-min fair shares by progressive filling. */
#include "sim/servers/sharing.h"

#include <assert.h>
#include <math.h>

#include "runtime/arena.h"
#include "runtime/status.h"

#define PS_A_SECOND 1e12

int tutti_cards_init(struct cards *cards, struct tutti_arena *arena, uint32_t host_count,
                     uint64_t host_bytes_per_s, uint32_t flow_limit)
{
    cards->host_count = host_count;
    cards->host_bytes_per_s = (double)host_bytes_per_s;
    cards->flow_limit = flow_limit;
    cards->flow = tutti_arena_take(arena, flow_limit, sizeof(*cards->flow));
    cards->left = tutti_arena_take(arena, host_count, 2 * sizeof(*cards->left));
    cards->open = tutti_arena_take(arena, host_count, 2 * sizeof(*cards->open));
    cards->first = tutti_arena_take(arena, host_count, 2 * sizeof(*cards->first));
    cards->used_bytes = tutti_arena_take(arena, host_count, 2 * sizeof(*cards->used_bytes));
    if (cards->flow == NULL || cards->left == NULL || cards->open == NULL || cards->first == NULL ||
        cards->used_bytes == NULL)
        return -TUTTI_ENOMEM;
    return 0;
}

void tutti_cards_add(struct cards *cards, uint32_t worker, uint32_t from, uint32_t to,
                     uint64_t bytes)
{
    assert(cards->flow_count < cards->flow_limit);
    assert(from != to);
    cards->flow[cards->flow_count++] =
        (struct card_flow){.worker = worker, .from = from, .to = to, .left_bytes = (double)bytes};
}

void tutti_cards_drop(struct cards *cards, uint32_t worker)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cards->flow_count; i++)
        if (cards->flow[i].worker != worker)
            cards->flow[kept++] = cards->flow[i];
    cards->flow_count = kept;
}

/* Of all cards with transfers that have no rate yet, the one that has least for each. */
static uint32_t most_loaded(const struct cards *cards)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < 2 * cards->host_count; i++)
        if (cards->open[i] > 0 && (best == UINT32_MAX || cards->left[i] * cards->open[best] <
                                                             cards->left[best] * cards->open[i]))
            best = i;
    return best;
}

/* Lists the transfers of each card, none of which has a rate. */
static void list_flows(struct cards *cards)
{
    for (uint32_t i = 0; i < 2 * cards->host_count; i++) {
        cards->left[i] = cards->host_bytes_per_s;
        cards->open[i] = 0;
        cards->first[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < cards->flow_count; i++) {
        struct card_flow *flow = &cards->flow[i];
        uint32_t card[2] = {2 * flow->from, 2 * flow->to + 1};

        flow->bytes_per_s = flow->left_bytes > 0 ? -1 : 0; /* -1: none yet */
        for (uint32_t k = 0; k < 2 && flow->left_bytes > 0; k++) {
            flow->next[k] = cards->first[card[k]];
            cards->first[card[k]] = i;
            cards->open[card[k]]++;
        }
    }
}

void tutti_cards_share(struct cards *cards)
{
    uint32_t card;

    list_flows(cards);
    while ((card = most_loaded(cards)) != UINT32_MAX) {
        double rate = cards->left[card] / cards->open[card];

        for (uint32_t i = cards->first[card]; i != UINT32_MAX; i = cards->flow[i].next[card % 2]) {
            struct card_flow *flow = &cards->flow[i];
            uint32_t out = 2 * flow->from;
            uint32_t in = 2 * flow->to + 1;

            if (flow->bytes_per_s >= 0)
                continue;
            flow->bytes_per_s = rate;
            cards->left[out] = fmax(cards->left[out] - rate, 0);
            cards->left[in] = fmax(cards->left[in] - rate, 0);
            cards->open[out]--;
            cards->open[in]--;
        }
    }
}

tutti_ps tutti_cards_next(const struct cards *cards)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < cards->flow_count; i++)
        if (cards->flow[i].left_bytes > 0)
            least = fmin(least, cards->flow[i].left_bytes / cards->flow[i].bytes_per_s);
    return least < 9e6 ? (tutti_ps)ceil(least * PS_A_SECOND) : INT64_MAX; /* up to 2^63 ps */
}

/* What would end within a picosecond has ended: its rest is rounding. */
bool tutti_cards_advance(struct cards *cards, tutti_ps by_ps)
{
    double seconds = (double)by_ps / PS_A_SECOND;
    bool ended = false;

    for (uint32_t i = 0; i < cards->flow_count; i++) {
        struct card_flow *flow = &cards->flow[i];
        bool was_over = flow->left_bytes <= 0;
        double moved = fmin(flow->bytes_per_s * seconds, flow->left_bytes);

        cards->used_bytes[2 * flow->from] += moved;
        cards->used_bytes[2 * flow->to + 1] += moved;
        flow->left_bytes -= moved;
        if (flow->left_bytes <= flow->bytes_per_s / PS_A_SECOND)
            flow->left_bytes = 0;
        ended = ended || (!was_over && flow->left_bytes <= 0);
    }
    return ended;
}
