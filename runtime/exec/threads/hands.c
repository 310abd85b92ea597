/* Moves and adds with several threads what one has found to be due; see hands.h. */
#include "runtime/exec/threads/hands.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/kernels.h"
#include "runtime/exec/threads/hall.h"
#include "runtime/exec/threads/place.h"
#include "runtime/status.h"

enum {
    CHORES_MAX = 256,
    HANDS_MAX = 15,
    /* To hand work over and to hear of its end takes up to a microsecond between processors that
     * lie far apart: a tenth of what moving this takes. */
    SHARED_BYTES = 64 << 10,
    /* To wake who sleeps takes 15 to 50 us, and a system call. */
    WAKING_BYTES = 512 << 10,
    LOOKS_BETWEEN_YIELDS = 1000,
};

/* A hand looks out for work so long after the last; instants that move much are closer together. */
static const tutti_ps AWAKE_PS = 150 * TUTTI_PS_PER_US;

static const uint32_t NONE = UINT32_MAX;

/* Something to be moved (no srcs: from acc) or reduced. */
struct chore {
    uint32_t next; /* of the same rank, or NONE */
    struct tutti_spread spread;
    const void *srcs[TUTTI_CHAIN_MAX];
    void *dsts[1 + TUTTI_PUSH_TARGETS_MAX];
};

/* The chores of one rank, in their order: whoever takes the first does them all. */
struct bundle {
    uint32_t first;
    uint32_t last;
    uint32_t rank;
};

struct hand {
    _Alignas(TUTTI_CACHE_LINE) atomic_bool asleep;
    sem_t bell;
    pthread_t thread;
    struct tutti_hands *hands;
};

struct tutti_hands {
    /* How many bundles nobody has taken yet, in the lower half, and a number that is another one
     * with every list, in the upper: who has slept over a list takes none of the next by mistake.
     */
    _Alignas(TUTTI_CACHE_LINE) atomic_uint_fast64_t turn;
    _Alignas(TUTTI_CACHE_LINE) atomic_uint done_count; /* of the bundles of this list */
    atomic_bool closing;
    _Alignas(TUTTI_CACHE_LINE) const struct tutti_hall *hall;
    struct chore *chores;   /* [CHORES_MAX] */
    struct bundle *bundles; /* [rank]; the first bundle_count are in use */
    uint32_t *bundle_of;    /* [rank]: 1 + the number of its bundle; 0: it has none */
    uint32_t chore_count;
    uint32_t bundle_count;
    uint32_t list_count; /* lists that have been shared */
    uint64_t bytes;      /* of all chores */
    struct hand *hands;  /* [hand_count] */
    uint32_t hand_count;
};

/* ---- work ------------------------------------------------------------------------------------ */

static void perform(struct chore *chore)
{
    struct tutti_spread *spread = &chore->spread;

    spread->srcs = chore->srcs;
    spread->dsts = chore->dsts;
    if (spread->src_count > 0)
        tutti_reduce_spread(spread);
    else if (spread->stream)
        tutti_copy_stream(chore->dsts[0], spread->acc, spread->count);
    else
        memmove(chore->dsts[0], spread->acc, spread->count);
}

/* Takes one bundle and does it; false: there is none left. */
static bool take_turn(struct tutti_hands *hands)
{
    uint_fast64_t turn = atomic_load(&hands->turn);

    while ((uint32_t)turn > 0) {
        if (!atomic_compare_exchange_weak(&hands->turn, &turn, turn - 1))
            continue;
        for (uint32_t i = hands->bundles[(uint32_t)turn - 1].first; i != NONE;
             i = hands->chores[i].next)
            perform(&hands->chores[i]);
        atomic_fetch_add(&hands->done_count, 1);
        return true;
    }
    return false;
}

/* Says that it sleeps, looks once more, and only then sleeps. */
static void sleep_until_rung(struct hand *hand)
{
    struct tutti_hands *hands = hand->hands;

    atomic_store(&hand->asleep, true);
    if (((uint32_t)atomic_load(&hands->turn) > 0 || atomic_load(&hands->closing)) &&
        atomic_exchange(&hand->asleep, false))
        return; /* else it has been rung, and the bell is to be heard */
    while (sem_wait(&hand->bell) != 0 && errno == EINTR)
        continue;
}

static void *run_hand(void *data)
{
    struct hand *hand = data;
    struct tutti_hands *hands = hand->hands;
    tutti_ps until_ps = tutti_hall_now(hands->hall) + AWAKE_PS;

    while (!atomic_load(&hands->closing)) {
        bool worked = false;

        while (take_turn(hands))
            worked = true;
        if (worked) {
            until_ps = tutti_hall_now(hands->hall) + AWAKE_PS;
        } else if (tutti_hall_now(hands->hall) > until_ps) {
            sleep_until_rung(hand);
            until_ps = tutti_hall_now(hands->hall) + AWAKE_PS;
        } else {
            tutti_hall_breathe();
        }
    }
    return NULL;
}

static void ring(struct hand *hand)
{
    if (atomic_exchange(&hand->asleep, false))
        sem_post(&hand->bell);
}

static void share(struct tutti_hands *hands)
{
    uint32_t look_count = 0;

    atomic_store(&hands->done_count, 0);
    hands->list_count++;
    atomic_store(&hands->turn, (uint_fast64_t)hands->list_count << 32 | hands->bundle_count);
    for (uint32_t i = 0; i < hands->hand_count && hands->bytes >= WAKING_BYTES; i++)
        ring(&hands->hands[i]);
    while (take_turn(hands))
        continue;
    while (atomic_load(&hands->done_count) < hands->bundle_count) {
        if (++look_count % LOOKS_BETWEEN_YIELDS == 0)
            sched_yield(); /* a hand may have lost its processor */
        tutti_hall_breathe();
    }
}

void tutti_hands_settle(struct tutti_hands *hands)
{
    if (hands->chore_count == 0)
        return;
    if (hands->hand_count > 0 && hands->bundle_count > 1 && hands->bytes >= SHARED_BYTES) {
        share(hands);
    } else {
        for (uint32_t i = 0; i < hands->chore_count; i++)
            perform(&hands->chores[i]);
    }
    for (uint32_t i = 0; i < hands->bundle_count; i++)
        hands->bundle_of[hands->bundles[i].rank] = 0;
    hands->bundle_count = 0;
    hands->chore_count = 0;
    hands->bytes = 0;
}

/* ---- the list -------------------------------------------------------------------------------- */

static struct chore *add(struct tutti_hands *hands, uint32_t rank, uint64_t bytes)
{
    uint32_t number;
    struct bundle *bundle;

    if (hands->chore_count == CHORES_MAX)
        tutti_hands_settle(hands);
    number = hands->chore_count++;
    hands->bytes += bytes;
    if (hands->bundle_of[rank] == 0) {
        hands->bundles[hands->bundle_count] = (struct bundle){.first = number, .rank = rank};
        hands->bundle_of[rank] = ++hands->bundle_count;
        bundle = &hands->bundles[hands->bundle_count - 1];
    } else {
        bundle = &hands->bundles[hands->bundle_of[rank] - 1];
        hands->chores[bundle->last].next = number;
    }
    bundle->last = number;
    hands->chores[number].next = NONE;
    return &hands->chores[number];
}

void tutti_hands_copy(struct tutti_hands *hands, uint32_t rank, void *dst, const void *src,
                      uint64_t bytes, bool streams)
{
    struct chore *chore = add(hands, rank, bytes);

    chore->spread = (struct tutti_spread){.acc = src, .count = (size_t)bytes, .stream = streams};
    chore->dsts[0] = dst;
}

void tutti_hands_reduce(struct tutti_hands *hands, uint32_t rank, const struct tutti_spread *spread)
{
    uint64_t bytes = spread->count * tutti_dtype_bytes(spread->dtype);
    struct chore *chore = add(hands, rank, bytes * (spread->src_count + spread->dst_count - 1));

    assert(spread->src_count > 0 && spread->src_count <= TUTTI_CHAIN_MAX);
    assert(spread->dst_count > 0 && spread->dst_count <= 1 + TUTTI_PUSH_TARGETS_MAX);
    chore->spread = *spread;
    memcpy(chore->srcs, spread->srcs, spread->src_count * sizeof(chore->srcs[0]));
    memcpy(chore->dsts, spread->dsts, spread->dst_count * sizeof(chore->dsts[0]));
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Fewer hands than asked for are slower, and nothing worse. */
static void start(struct tutti_hands *hands, uint32_t count)
{
    while (hands->hand_count < count && hands->hand_count < HANDS_MAX) {
        struct hand *hand = &hands->hands[hands->hand_count];

        hand->hands = hands;
        atomic_init(&hand->asleep, false);
        if (sem_init(&hand->bell, 0, 0) != 0)
            return;
        if (pthread_create(&hand->thread, NULL, run_hand, hand) != 0) {
            sem_destroy(&hand->bell);
            return;
        }
        hands->hand_count++;
    }
}

int tutti_hands_open(const struct tutti_hall *hall, uint32_t rank_count, uint32_t count,
                     struct tutti_hands **ret, struct tutti_err *err)
{
    struct tutti_hands *hands = aligned_alloc(TUTTI_CACHE_LINE, sizeof(*hands));

    if (hands == NULL)
        return tutti_nomem(err);
    *hands = (struct tutti_hands){
        .hall = hall,
        .chores = calloc(CHORES_MAX, sizeof(hands->chores[0])),
        .bundles = calloc((size_t)rank_count + 1, sizeof(hands->bundles[0])),
        .bundle_of = calloc((size_t)rank_count + 1, sizeof(hands->bundle_of[0])),
        .hands = aligned_alloc(TUTTI_CACHE_LINE, HANDS_MAX * sizeof(hands->hands[0])),
    };
    if (hands->chores == NULL || hands->bundles == NULL || hands->bundle_of == NULL ||
        hands->hands == NULL) {
        tutti_hands_close(hands);
        return tutti_nomem(err);
    }
    start(hands, count);
    *ret = hands;
    return 0;
}

void tutti_hands_close(struct tutti_hands *hands)
{
    if (hands == NULL)
        return;
    atomic_store(&hands->closing, true);
    for (uint32_t i = 0; i < hands->hand_count; i++)
        ring(&hands->hands[i]);
    for (uint32_t i = 0; i < hands->hand_count; i++) {
        pthread_join(hands->hands[i].thread, NULL);
        sem_destroy(&hands->hands[i].bell);
    }
    free(hands->chores);
    free(hands->bundles);
    free(hands->bundle_of);
    free(hands->hands);
    free(hands);
}
