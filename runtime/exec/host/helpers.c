/* Moves and adds with several threads what one has found to be due; see helpers.h. */
#include "runtime/exec/host/helpers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/device/kernels.h"
#include "runtime/exec/host/lane_state.h"
#include "runtime/exec/host/wait_set.h"
#include "runtime/status.h"

enum {
    CHORES_MAX = 256,
    HELPERS_MAX = 15,
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
    const void *srcs[TUTTI_DEFERRED_MAX];
    void *dsts[1 + TUTTI_REMOTE_WRITE_TARGETS_MAX];
};

/* The chores of one rank, in their order: whoever takes the first does them all. */
struct bundle {
    uint32_t first;
    uint32_t last;
    uint32_t rank;
};

struct helper {
    _Alignas(TUTTI_CACHE_LINE) atomic_bool asleep;
    sem_t sleeper;
    pthread_t thread;
    struct tutti_helpers *helpers;
};

struct tutti_helpers {
    /* How many bundles nobody has taken yet, in the lower half, and a number that is another one
     * with every list, in the upper: who has slept over a list takes none of the next by mistake.
     */
    _Alignas(TUTTI_CACHE_LINE) atomic_uint_fast64_t turn;
    _Alignas(TUTTI_CACHE_LINE) atomic_uint done_count; /* of the bundles of this list */
    atomic_bool closing;
    _Alignas(TUTTI_CACHE_LINE) const struct tutti_wait_set *wait_set;
    struct chore *chores;   /* [CHORES_MAX] */
    struct bundle *bundles; /* [rank]; the first bundle_count are in use */
    uint32_t *bundle_of;    /* [rank]: 1 + the number of its bundle; 0: it has none */
    uint32_t chore_count;
    uint32_t bundle_count;
    uint32_t list_count;    /* lists that have been shared */
    uint64_t bytes;         /* of all chores */
    struct helper *helpers; /* [helper_count] */
    uint32_t helper_count;
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
static bool take_turn(struct tutti_helpers *helpers)
{
    uint_fast64_t turn = atomic_load(&helpers->turn);

    while ((uint32_t)turn > 0) {
        if (!atomic_compare_exchange_weak(&helpers->turn, &turn, turn - 1))
            continue;
        for (uint32_t i = helpers->bundles[(uint32_t)turn - 1].first; i != NONE;
             i = helpers->chores[i].next)
            perform(&helpers->chores[i]);
        atomic_fetch_add(&helpers->done_count, 1);
        return true;
    }
    return false;
}

/* Says that it sleeps, looks once more, and only then sleeps. */
static void sleep_until_rung(struct helper *helper)
{
    struct tutti_helpers *helpers = helper->helpers;

    atomic_store(&helper->asleep, true);
    if (((uint32_t)atomic_load(&helpers->turn) > 0 || atomic_load(&helpers->closing)) &&
        atomic_exchange(&helper->asleep, false))
        return; /* else it has been rung, and the sleeper is to be heard */
    while (sem_wait(&helper->sleeper) != 0 && errno == EINTR)
        continue;
}

static void *run_helper(void *data)
{
    struct helper *helper = data;
    struct tutti_helpers *helpers = helper->helpers;
    tutti_ps until_ps = tutti_wait_set_now(helpers->wait_set) + AWAKE_PS;

    while (!atomic_load(&helpers->closing)) {
        bool worked = false;

        while (take_turn(helpers))
            worked = true;
        if (worked) {
            until_ps = tutti_wait_set_now(helpers->wait_set) + AWAKE_PS;
        } else if (tutti_wait_set_now(helpers->wait_set) > until_ps) {
            sleep_until_rung(helper);
            until_ps = tutti_wait_set_now(helpers->wait_set) + AWAKE_PS;
        } else {
            tutti_cpu_relax();
        }
    }
    return NULL;
}

static void ring(struct helper *helper)
{
    if (atomic_exchange(&helper->asleep, false))
        sem_post(&helper->sleeper);
}

static void share(struct tutti_helpers *helpers)
{
    uint32_t look_count = 0;

    atomic_store(&helpers->done_count, 0);
    helpers->list_count++;
    atomic_store(&helpers->turn, (uint_fast64_t)helpers->list_count << 32 | helpers->bundle_count);
    for (uint32_t i = 0; i < helpers->helper_count && helpers->bytes >= WAKING_BYTES; i++)
        ring(&helpers->helpers[i]);
    while (take_turn(helpers))
        continue;
    while (atomic_load(&helpers->done_count) < helpers->bundle_count) {
        if (++look_count % LOOKS_BETWEEN_YIELDS == 0)
            sched_yield(); /* a hand may have lost its processor */
        tutti_cpu_relax();
    }
}

void tutti_helpers_settle(struct tutti_helpers *helpers)
{
    if (helpers->chore_count == 0)
        return;
    if (helpers->helper_count > 0 && helpers->bundle_count > 1 && helpers->bytes >= SHARED_BYTES) {
        share(helpers);
    } else {
        for (uint32_t i = 0; i < helpers->chore_count; i++)
            perform(&helpers->chores[i]);
    }
    for (uint32_t i = 0; i < helpers->bundle_count; i++)
        helpers->bundle_of[helpers->bundles[i].rank] = 0;
    helpers->bundle_count = 0;
    helpers->chore_count = 0;
    helpers->bytes = 0;
}

/* ---- the list -------------------------------------------------------------------------------- */

static struct chore *add(struct tutti_helpers *helpers, uint32_t rank, uint64_t bytes)
{
    uint32_t number;
    struct bundle *bundle;

    if (helpers->chore_count == CHORES_MAX)
        tutti_helpers_settle(helpers);
    number = helpers->chore_count++;
    helpers->bytes += bytes;
    if (helpers->bundle_of[rank] == 0) {
        helpers->bundles[helpers->bundle_count] = (struct bundle){.first = number, .rank = rank};
        helpers->bundle_of[rank] = ++helpers->bundle_count;
        bundle = &helpers->bundles[helpers->bundle_count - 1];
    } else {
        bundle = &helpers->bundles[helpers->bundle_of[rank] - 1];
        helpers->chores[bundle->last].next = number;
    }
    bundle->last = number;
    helpers->chores[number].next = NONE;
    return &helpers->chores[number];
}

void tutti_helpers_copy(struct tutti_helpers *helpers, uint32_t rank, void *dst, const void *src,
                        uint64_t bytes, bool streams)
{
    struct chore *chore = add(helpers, rank, bytes);

    chore->spread = (struct tutti_spread){.acc = src, .count = (size_t)bytes, .stream = streams};
    chore->dsts[0] = dst;
}

void tutti_helpers_reduce(struct tutti_helpers *helpers, uint32_t rank,
                          const struct tutti_spread *spread)
{
    uint64_t bytes = spread->count * tutti_dtype_bytes(spread->dtype);
    struct chore *chore = add(helpers, rank, bytes * (spread->src_count + spread->dst_count - 1));

    assert(spread->src_count > 0 && spread->src_count <= TUTTI_DEFERRED_MAX);
    assert(spread->dst_count > 0 && spread->dst_count <= 1 + TUTTI_REMOTE_WRITE_TARGETS_MAX);
    chore->spread = *spread;
    memcpy(chore->srcs, spread->srcs, spread->src_count * sizeof(chore->srcs[0]));
    memcpy(chore->dsts, spread->dsts, spread->dst_count * sizeof(chore->dsts[0]));
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* Fewer helpers than asked for are slower, and nothing worse. */
static void start(struct tutti_helpers *helpers, uint32_t count)
{
    while (helpers->helper_count < count && helpers->helper_count < HELPERS_MAX) {
        struct helper *helper = &helpers->helpers[helpers->helper_count];

        helper->helpers = helpers;
        atomic_init(&helper->asleep, false);
        if (sem_init(&helper->sleeper, 0, 0) != 0)
            return;
        if (pthread_create(&helper->thread, NULL, run_helper, helper) != 0) {
            sem_destroy(&helper->sleeper);
            return;
        }
        helpers->helper_count++;
    }
}

int tutti_helpers_open(const struct tutti_wait_set *wait_set, uint32_t rank_count, uint32_t count,
                       struct tutti_helpers **ret, struct tutti_err *err)
{
    struct tutti_helpers *helpers = aligned_alloc(TUTTI_CACHE_LINE, sizeof(*helpers));

    if (helpers == NULL)
        return tutti_nomem(err);
    *helpers = (struct tutti_helpers){
        .wait_set = wait_set,
        .chores = calloc(CHORES_MAX, sizeof(helpers->chores[0])),
        .bundles = calloc((size_t)rank_count + 1, sizeof(helpers->bundles[0])),
        .bundle_of = calloc((size_t)rank_count + 1, sizeof(helpers->bundle_of[0])),
        .helpers = aligned_alloc(TUTTI_CACHE_LINE, HELPERS_MAX * sizeof(helpers->helpers[0])),
    };
    if (helpers->chores == NULL || helpers->bundles == NULL || helpers->bundle_of == NULL ||
        helpers->helpers == NULL) {
        tutti_helpers_close(helpers);
        return tutti_nomem(err);
    }
    start(helpers, count);
    *ret = helpers;
    return 0;
}

void tutti_helpers_close(struct tutti_helpers *helpers)
{
    if (helpers == NULL)
        return;
    atomic_store(&helpers->closing, true);
    for (uint32_t i = 0; i < helpers->helper_count; i++)
        ring(&helpers->helpers[i]);
    for (uint32_t i = 0; i < helpers->helper_count; i++) {
        pthread_join(helpers->helpers[i].thread, NULL);
        sem_destroy(&helpers->helpers[i].sleeper);
    }
    free(helpers->chores);
    free(helpers->bundles);
    free(helpers->bundle_of);
    free(helpers->helpers);
    free(helpers);
}
