/* Finds the results that may be written straight to where they will be received. */
#include "runtime/exec/host/remote_write.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

enum {
    STEPS_MAX =
        1 << 20, /* larger programs go without: the walks would take longer than they save */
    OVERLAPS_PER_STEP = 8, /* likewise where everything overlaps everything */
    /* From this size on processes of one host read messages where they lie (tcp: line.h). */
    LENT_BYTES = 128 << 10,
};

/* A SEND of a fresh result, and the RECV that it meets. */
struct candidate {
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint64_t message; /* of the connection, from 0 */
    uint64_t reduce;  /* steps of `from` */
    uint64_t send;
    uint64_t recv; /* step of `to` */
    uint64_t offset;
    uint64_t bytes;
    bool landed; /* the RECV is one of output bytes that nobody touches before */
};

struct search {
    const struct tutti_schedule *schedule;
    const struct tutti_connections *connections;
    uint8_t *handed; /* as in struct tutti_remote_writes */
    struct candidate *candidates;
    size_t count;
    size_t capacity;
    uint64_t *message_counts; /* [connection]: seen in this walk */
    uint64_t step_count;
    uint64_t overlap_count;
    bool too_large;
};

/* One step of a walk over all programs. */
struct visit {
    uint32_t rank;
    uint32_t lane;
    uint64_t index;
    const struct tutti_step *step;
    /* The last REDUCE, if only SENDs without dependencies have followed. */
    struct tutti_step result;
    uint64_t result_index;
    uint32_t result_sends;
    bool has_result;
};

typedef int visitor_fn(struct search *search, struct visit *visit, struct tutti_err *err);

static int walk(struct search *search, visitor_fn *visitor, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = search->schedule;
    struct tutti_cursor cursor;
    struct visit visit = {0};
    int status = 0;

    for (uint32_t i = 0; i < search->connections->connection_count; i++)
        search->message_counts[i] = 0;
    for (visit.rank = search->connections->first_rank;
         tutti_connections_own(search->connections, visit.rank); visit.rank++) {
        for (visit.lane = 0; visit.lane < schedule->lane_count; visit.lane++) {
            visit.has_result = false;
            tutti_cursor_open(&cursor, schedule, visit.rank, visit.lane);
            for (visit.index = 0; status == 0 && !search->too_large; visit.index++) {
                visit.step = tutti_cursor_next(&cursor);
                if (visit.step == NULL)
                    break;
                status = visitor(search, &visit, err);
            }
        }
    }
    return status;
}

/* The number of this message on its connection. */
static uint64_t count_message(struct search *search, uint32_t from, uint32_t to, uint32_t lane)
{
    const struct tutti_connection *connection =
        tutti_thread_connections_find(search->connections, from, to, lane);

    assert(connection != NULL);
    return search->message_counts[connection - search->connections->connections]++;
}

/* ---- first walk: SENDs of fresh results ---- */

static int add(struct search *search, const struct candidate *candidate, struct tutti_err *err)
{
    if (search->count == search->capacity) {
        size_t capacity = search->capacity == 0 ? 64 : 2 * search->capacity;
        struct candidate *larger = realloc(search->candidates, capacity * sizeof(*larger));

        if (larger == NULL)
            return tutti_nomem(err);
        search->candidates = larger;
        search->capacity = capacity;
    }
    search->candidates[search->count++] = *candidate;
    return 0;
}

static int see_sends(struct search *search, struct visit *visit, struct tutti_err *err)
{
    const struct tutti_step *step = visit->step;
    struct candidate candidate;

    search->too_large = ++search->step_count > STEPS_MAX;
    if (step->kind != TUTTI_SEND) {
        visit->has_result = step->kind == TUTTI_REDUCE && step->bytes > 0;
        visit->result = *step;
        visit->result_index = visit->index;
        visit->result_sends = 0;
        return 0;
    }
    candidate = (struct candidate){
        .from = visit->rank,
        .to = step->peer,
        .lane = visit->lane,
        .message = count_message(search, visit->rank, step->peer, visit->lane),
        .reduce = visit->result_index,
        .send = visit->index,
        .bytes = step->bytes,
    };
    if (tutti_connections_own(search->connections, step->peer) || step->bytes >= LENT_BYTES)
        search->handed[visit->rank - search->connections->first_rank] |=
            (uint8_t)(1u << step->src_buf);
    visit->has_result = visit->has_result && (step->flags & TUTTI_STEP_DEP) == 0;
    if (!visit->has_result || step->src_buf != visit->result.dst_buf ||
        step->src_offset != visit->result.dst_offset || step->bytes != visit->result.bytes ||
        !tutti_connections_own(search->connections, step->peer) ||
        visit->result_sends == TUTTI_REMOTE_WRITE_TARGETS_MAX)
        return 0;
    visit->result_sends++;
    return add(search, &candidate, err);
}

/* ---- second walk: where they land ---- */

static int by_message(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;

    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    return (a->message > b->message) - (a->message < b->message);
}

static int see_windows(struct search *search, struct visit *visit, struct tutti_err *err)
{
    const struct tutti_step *step = visit->step;
    struct candidate key = {.from = step->peer, .to = visit->rank, .lane = visit->lane};
    struct candidate *found;

    (void)err;
    if (step->kind != TUTTI_RECV)
        return 0;
    key.message = count_message(search, step->peer, visit->rank, visit->lane);
    if ((step->flags & TUTTI_STEP_FUSE) != 0 || step->dst_buf != TUTTI_BUF_OUT)
        return 0;
    found = bsearch(&key, search->candidates, search->count, sizeof(key), by_message);
    if (found == NULL || found->bytes != step->bytes)
        return 0;
    found->landed = true;
    found->recv = visit->index;
    found->offset = step->dst_offset;
    return 0;
}

/* ---- third walk: who touches the bytes before ---- */

/* Landings first, by rank and place. */
static int by_window(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;

    if (a->landed != b->landed)
        return a->landed ? -1 : 1;
    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

/* Keeps the windows that share no byte with another. */
static void drop_overlaps(struct search *search)
{
    struct candidate *all = search->candidates;
    size_t kept = 0;
    size_t next;

    qsort(all, search->count, sizeof(*all), by_window);
    for (size_t i = 0; i < search->count && all[i].landed; i = next) {
        uint64_t end = all[i].offset + all[i].bytes;

        for (next = i + 1; next < search->count && all[next].landed && all[next].to == all[i].to &&
                           all[next].offset < end;
             next++) {
            if (all[next].offset + all[next].bytes > end)
                end = all[next].offset + all[next].bytes;
        }
        if (next == i + 1)
            all[kept++] = all[i];
    }
    search->count = kept;
}

/* The first window of `rank` that ends after `offset`. */
static size_t first_window(const struct search *search, uint32_t rank, uint64_t offset)
{
    size_t low = 0;
    size_t high = search->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct candidate *c = &search->candidates[middle];

        if (c->to < rank || (c->to == rank && c->offset + c->bytes <= offset))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void touch(struct search *search, const struct visit *visit, unsigned buf, uint64_t offset,
                  uint64_t bytes)
{
    uint64_t end = offset + bytes;

    if (buf != TUTTI_BUF_OUT || bytes == 0)
        return;
    for (size_t i = first_window(search, visit->rank, offset); i < search->count; i++) {
        struct candidate *c = &search->candidates[i];

        if (c->to != visit->rank || c->offset >= end)
            break;
        if (c->lane != visit->lane || visit->index < c->recv)
            c->landed = false;
        search->overlap_count++;
    }
}

static void touch_work(struct search *search, const struct visit *visit)
{
    const struct tutti_step *step = visit->step;
    const struct tutti_work *work =
        step->peer == 0 ? NULL : &search->schedule->work[step->peer - 1];

    for (uint32_t i = 0; work != NULL && i < work->read_count + work->write_count; i++) {
        struct tutti_region at = tutti_region_at(
            i < work->read_count ? &work->reads[i] : &work->writes[i - work->read_count], step);

        touch(search, visit, at.buf, at.offset, at.bytes);
    }
}

static int see_touches(struct search *search, struct visit *visit, struct tutti_err *err)
{
    const struct tutti_step *step = visit->step;

    (void)err;
    if (step->kind == TUTTI_COMPUTE) {
        touch_work(search, visit);
        return 0;
    }
    touch(search, visit, step->dst_buf, step->dst_offset, step->bytes);
    touch(search, visit, step->src_buf, step->src_offset, step->bytes);
    touch(search, visit, step->acc_buf, step->acc_offset, step->bytes);
    search->too_large = search->overlap_count / OVERLAPS_PER_STEP > search->step_count;
    return 0;
}

/* ---- the result ---- */

static int by_send(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;

    if (a->landed != b->landed)
        return a->landed ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    return (a->send > b->send) - (a->send < b->send);
}

static int keep(struct search *search, struct tutti_remote_writes *remote_writes,
                struct tutti_err *err)
{
    size_t lane_total = (size_t)search->connections->own_count * search->schedule->lane_count;
    size_t remote_write_count = 0;
    size_t lane = 0;

    qsort(search->candidates, search->count, sizeof(*search->candidates), by_send);
    remote_writes->remote_writes =
        calloc(search->count + 1, sizeof(remote_writes->remote_writes[0]));
    remote_writes->targets = calloc(search->count + 1, sizeof(remote_writes->targets[0]));
    remote_writes->lane_first = calloc(lane_total + 1, sizeof(remote_writes->lane_first[0]));
    if (remote_writes->remote_writes == NULL || remote_writes->targets == NULL ||
        remote_writes->lane_first == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < search->count && search->candidates[i].landed; i++) {
        const struct candidate *c = &search->candidates[i];
        size_t at =
            (size_t)(c->from - search->connections->first_rank) * search->schedule->lane_count +
            c->lane;
        struct tutti_remote_write *remote_write = &remote_writes->remote_writes[remote_write_count];

        if (i == 0 || at + 1 != lane || remote_write[-1].step != c->reduce) {
            for (; lane <= at; lane++)
                remote_writes->lane_first[lane] = remote_write_count;
            *remote_write = (struct tutti_remote_write){.step = c->reduce, .target_first = i};
            remote_write_count++;
        }
        remote_writes->remote_writes[remote_write_count - 1].target_count++;
        remote_writes->targets[i] =
            (struct tutti_remote_write_target){.step = c->send, .offset = c->offset, .to = c->to};
    }
    for (; lane <= lane_total; lane++)
        remote_writes->lane_first[lane] = remote_write_count;
    return 0;
}

static int find(struct search *search, struct tutti_remote_writes *remote_writes,
                struct tutti_err *err)
{
    int status = walk(search, see_sends, err);

    if (status < 0 || search->too_large || search->count == 0)
        return status;
    qsort(search->candidates, search->count, sizeof(*search->candidates), by_message);
    status = walk(search, see_windows, err);
    assert(status == 0);
    drop_overlaps(search);
    status = walk(search, see_touches, err);
    assert(status == 0);
    return search->too_large || search->count == 0 ? 0 : keep(search, remote_writes, err);
}

int tutti_thread_remote_writes_open(struct tutti_remote_writes *remote_writes,
                                    const struct tutti_schedule *schedule,
                                    const struct tutti_connections *connections,
                                    struct tutti_err *err)
{
    struct search search = {.schedule = schedule, .connections = connections};
    int status;

    *remote_writes = (struct tutti_remote_writes){0};
    search.message_counts = calloc((size_t)connections->connection_count + 1, sizeof(uint64_t));
    search.handed = remote_writes->handed =
        calloc((size_t)connections->own_count + 1, sizeof(uint8_t));
    status = search.message_counts == NULL || search.handed == NULL
                 ? tutti_nomem(err)
                 : find(&search, remote_writes, err);
    free(search.message_counts);
    free(search.candidates);
    if (status < 0)
        tutti_thread_remote_writes_close(remote_writes);
    return status;
}

void tutti_thread_remote_writes_close(struct tutti_remote_writes *remote_writes)
{
    free(remote_writes->remote_writes);
    free(remote_writes->lane_first);
    free(remote_writes->targets);
    free(remote_writes->handed);
    *remote_writes = (struct tutti_remote_writes){0};
}
