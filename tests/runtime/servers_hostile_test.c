/* A parameter server and messages that nobody would send: valid ones of all kinds with bytes
 * changed, cut off or added, in any order and of anybody. Each is taken or refused, nothing beyond
 * its bytes is read, and the server goes on. */
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/frames/connection.h"
#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/servers/lead_inside.h"
#include "runtime/servers/server.h"
#include "tests/test.h"

enum { SEATS = 6, PAYLOAD_MAX = 2048, PAGES = 8192, TYPES = TUTTI_MESSAGE_VERDICT + 3 };

struct world {
    struct tutti_random random;
    struct tutti_workload *model;
    struct tutti_servers_params params;
    struct tutti_server_layout *layout;
    struct tutti_server server;
    uint64_t sense; /* one message in so many is not what its sender would say */
    int other_end[SEATS];
    uint8_t *end; /* of memory that may be read */
    uint64_t taken;
    uint64_t refused;
    uint64_t applied; /* gradients: so far they have come */
};

static bool chance(struct world *w, uint64_t one_in)
{
    return tutti_random_below(&w->random, one_in) == 0;
}

static uint32_t below(struct world *w, uint32_t count)
{
    return (uint32_t)tutti_random_below(&w->random, count);
}

/* ---- a server without a listener ------------------------------------------------------------- */

static void connect_seat(struct world *w, uint32_t index)
{
    const struct tutti_frames_opts opts = {.bytes_max = PAYLOAD_MAX, .deadline_ps = TUTTI_PS_PER_S};
    const struct tutti_wire_talk talk = {.secret = NULL};
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    w->server.seats[index] =
        (struct tutti_seat){.frames = tutti_frames_new(fds[0], &opts, &talk, true)};
    w->other_end[index] = fds[1];
}

static void open_server(struct world *w)
{
    static const char *const servers[] = {"127.0.0.1:1", "127.0.0.1:2"};
    struct tutti_server *s = &w->server;
    struct tutti_lead_calls calls = tutti_server_lead_calls;
    struct tutti_servers_params *p = &w->params;
    struct tutti_err err = {""};

    *p = (struct tutti_servers_params){.size = sizeof(*p),
                                       .role = TUTTI_SERVERS_SERVER,
                                       .index = below(w, 4) == 0,
                                       .server_count = 2,
                                       .worker_count = 1 + below(w, 3),
                                       .has_chief = chance(w, 2),
                                       .servers = servers,
                                       .model = w->model,
                                       .steps = 20,
                                       .synchronous = chance(w, 2),
                                       .deadline_ps = 30 * TUTTI_PS_PER_S};
    p->aggregate = p->synchronous ? 1 + below(w, p->worker_count) : 0;
    w->sense = 2 + below(w, 40);
    (void)tutti_update_named(chance(w, 2) ? "adam" : "sgd", &p->optimizer, NULL);
    *s = (struct tutti_server){.params = *p, .seat_count = SEATS, .seat_room = SEATS};
    if (tutti_server_layout_new(p, &w->layout, &err) < 0)
        TEST_FAIL("%s", err.text);
    s->layout = w->layout;
    tutti_servers_describe(p, w->layout, s->model_text, s->training_text);
    s->seats = calloc(SEATS, sizeof(s->seats[0]));
    s->seen = calloc(lead_trainer_count(p), sizeof(s->seen[0]));
    if (tutti_store_new(p, w->layout, p->index, &s->store, &err) < 0)
        TEST_FAIL("%s", err.text);
    for (uint32_t i = 0; i < SEATS; i++)
        connect_seat(w, i);
    calls.context = s;
    if (p->index > 0)
        return;
    if (tutti_lead_new(p, &calls, 0, &s->lead, &err) < 0)
        TEST_FAIL("%s", err.text);
    s->lead->generation = UINT64_C(1) << 40; /* not of the clock: the same for each seed */
    tutti_lead_server_joined(s->lead, 0, 0);
}

static void close_server(struct world *w)
{
    struct tutti_server *s = &w->server;
    struct tutti_servers_result result;

    for (uint32_t i = 0; i < SEATS; i++) {
        tutti_frames_close(s->seats[i].frames);
        close(w->other_end[i]);
    }
    if (s->lead != NULL) {
        tutti_lead_result(s->lead, &result);
        w->applied += result.applied;
    }
    tutti_lead_free(s->lead);
    tutti_store_free(s->store);
    tutti_server_layout_free(w->layout);
    free(s->seats);
    free(s->seen);
    free(s->told);
}

/* What the server says is read by nobody. */
static void read_away(struct world *w)
{
    char bytes[1 << 14];

    for (uint32_t i = 0; i < SEATS; i++)
        while (read(w->other_end[i], bytes, sizeof(bytes)) > 0) {
        }
}

/* As the server's own loop does with those that have gone. */
static void clear_seats(struct world *w)
{
    struct tutti_server *s = &w->server;

    for (uint32_t i = 0; i < SEATS; i++) {
        const struct tutti_seat gone = s->seats[i];

        if (gone.frames != NULL)
            continue;
        close(w->other_end[i]);
        connect_seat(w, i);
        if (s->lead == NULL || !gone.is_known)
            continue;
        if (gone.role == TUTTI_SERVERS_SERVER)
            tutti_lead_server_lost(s->lead, gone.member);
        else
            tutti_lead_trainer_lost(s->lead, gone.member);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Whoever is not there, if it draws one. */
static struct tutti_server_hello draw_hello(struct world *w)
{
    struct tutti_server_hello hello = {.model = w->server.model_text,
                                       .training = w->server.training_text};
    bool is_there = true;

    for (uint32_t tries = 0; tries < 8 && is_there; tries++) {
        const bool is_server = chance(w, 3);
        const bool is_chief = w->params.has_chief && chance(w, 3);

        hello.role = is_server  ? TUTTI_SERVERS_SERVER
                     : is_chief ? TUTTI_SERVERS_CHIEF
                                : TUTTI_SERVERS_WORKER;
        hello.index = is_server ? 1 : is_chief ? 0 : below(w, w->params.worker_count);
        is_there = tutti_server_seat_of(
                       &w->server, !is_server,
                       hello.index + (!is_server && !is_chief && w->params.has_chief)) != NULL;
    }
    return hello;
}

static bool all_are_there(const struct world *w)
{
    uint32_t known = 0;

    for (uint32_t i = 0; i < SEATS; i++)
        known += w->server.seats[i].is_known;
    return known >= lead_trainer_count(&w->params) + (w->server.lead != NULL ? 1 : 0);
}

/* As this one would say it now. */
static struct tutti_server_head head_of(struct world *w, const struct tutti_seat *seat,
                                        uint32_t type)
{
    const struct tutti_server *s = &w->server;
    struct tutti_server_head head = {.generation = s->store->generation,
                                     .step = s->store->step,
                                     .sequence = s->store->sequence,
                                     .number = 1 + below(w, 4)};
    const struct tutti_coord_member *m = NULL;

    if (s->lead == NULL)
        return head;
    head.generation = s->lead->generation;
    head.sequence = s->lead->sequence;
    if (type == TUTTI_MESSAGE_IS_SET_UP || type == TUTTI_MESSAGE_SAVED ||
        type == TUTTI_MESSAGE_ASSIGN)
        m = tutti_coordinator_member(s->lead->supervisor, 0);
    else if (s->lead->training != NULL && seat->is_known && seat->role != TUTTI_SERVERS_SERVER &&
             lead_is_worker(s->lead, seat->member))
        m = tutti_coordinator_member(s->lead->training, lead_worker_of(s->lead, seat->member));
    if (m == NULL)
        return head;
    head.incarnation = m->incarnation;
    head.episode = m->episode;
    return head;
}

/* What leads on. */
static uint32_t sensible_type(struct world *w, const struct tutti_seat *seat)
{
    static const uint32_t of_chief[] = {TUTTI_MESSAGE_SAVE_DUE, TUTTI_MESSAGE_SEEN,
                                        TUTTI_MESSAGE_ALIVE, TUTTI_MESSAGE_SNAPSHOT,
                                        TUTTI_MESSAGE_SAVED};
    const struct tutti_server *s = &w->server;

    if (!seat->is_known)
        return TUTTI_MESSAGE_HELLO;
    if (seat->role == TUTTI_SERVERS_SERVER)
        return TUTTI_MESSAGE_ALIVE;
    if (seat->member == 0 && s->lead == NULL && chance(w, 8))
        return TUTTI_MESSAGE_ASSIGN;
    if (seat->member == 0 && s->lead != NULL && s->lead->training == NULL)
        return s->store->generation != s->lead->generation ? TUTTI_MESSAGE_ASSIGN
                                                           : TUTTI_MESSAGE_IS_SET_UP;
    if (seat->member == 0 && s->lead != NULL && (w->params.has_chief || chance(w, 8)))
        return of_chief[below(w, 5)];
    return chance(w, 2)      ? TUTTI_MESSAGE_PULL
           : s->lead != NULL ? TUTTI_MESSAGE_DONE
                             : TUTTI_MESSAGE_PUSH;
}

static uint64_t values_of(const struct world *w, uint32_t type)
{
    const struct tutti_store *store = w->server.store;

    return type == TUTTI_MESSAGE_ASSIGN                               ? tutti_store_row(store)
           : type == TUTTI_MESSAGE_PUSH || type == TUTTI_MESSAGE_DONE ? store->count
                                                                      : 0;
}

static size_t put_message(struct world *w, const struct tutti_seat *seat, uint32_t type,
                          uint8_t *ret)
{
    const struct tutti_server_head head = head_of(w, seat, type);
    const struct tutti_server_report report = {.compute_s = 1};
    const float value = 0.5F;
    size_t bytes = TUTTI_SERVER_HEAD_BYTES;

    if (type == TUTTI_MESSAGE_HELLO) {
        const struct tutti_server_hello hello = draw_hello(w);

        return tutti_server_hello_put(&hello, ret);
    }
    tutti_server_head_put(&head, ret);
    if (type == TUTTI_MESSAGE_DONE) {
        tutti_server_report_put(&report, ret + bytes);
        bytes += TUTTI_SERVER_REPORT_BYTES;
    }
    for (uint64_t i = 0; i < values_of(w, type); i++, bytes += sizeof(value))
        memcpy(ret + bytes, &value, sizeof(value));
    if (type == TUTTI_MESSAGE_FAIL)
        bytes += (size_t)snprintf((char *)ret + bytes, 32, "out of patience") + 1;
    return bytes;
}

static size_t change(struct world *w, uint8_t *bytes, size_t count)
{
    static const uint64_t extremes[] = {0, 1, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX};
    size_t at = tutti_random_below(&w->random, count);

    switch (below(w, 4)) {
    case 0:
        for (uint32_t i = 0; i < 1 + below(w, 8); i++)
            bytes[tutti_random_below(&w->random, count)] ^= (uint8_t)(1 + below(w, 255));
        return count;
    case 1: /* cut off */
        return at;
    case 2: /* added to */
        at = 1 + below(w, 64);
        memset(bytes + count, (int)below(w, 256), at);
        return count + at;
    default: /* a number of the head, or nearby */
        at = 4 * below(w, (uint32_t)(count / 4 < 13 ? count / 4 : 13));
        if (chance(w, 2))
            bytes[at] = (uint8_t)(bytes[at] + (chance(w, 2) ? 1 : 255));
        else if (at + sizeof(extremes[0]) <= count)
            memcpy(bytes + at, &extremes[below(w, 6)], sizeof(extremes[0]));
        return count;
    }
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* At the end of what may be read; values lie as those of a frame do. */
static const uint8_t *at_the_end(const struct world *w, const uint8_t *bytes, size_t count)
{
    uint8_t *at = w->end - (count + 7) / 8 * 8;

    if (count % 8 != 0 && count % sizeof(float) == 0)
        at = w->end - count;
    memcpy(at, bytes, count);
    return at;
}

static void decode(struct world *w, const uint8_t *bytes, size_t count)
{
    uint64_t by_worker[4];
    struct tutti_servers_result result = {.by_worker = chance(w, 2) ? by_worker : NULL};
    struct tutti_server_hello hello;
    struct tutti_err err = {""};
    /* These read bytes one by one. */
    const uint8_t *at = memcpy(w->end - count, bytes, count);

    if (tutti_server_hello_get(at, count, &hello, &err) == 0)
        CHECK(strlen(hello.model) + strlen(hello.training) < count);
    else
        CHECK(err.text[0] != '\0');
    CHECK((tutti_server_result_get(at, count, w->params.worker_count, &result, &err) == 0) ==
          (count == tutti_server_result_bytes(w->params.worker_count)));
    if (count >= TUTTI_SERVER_HEAD_BYTES)
        CHECK_INT(tutti_server_failure_get(at, count, &err), -TUTTI_EIO);
}

static void check_server(const struct world *w)
{
    const struct tutti_server *s = &w->server;

    CHECK_INT(s->seat_count, SEATS);
    for (uint32_t i = 0; i < SEATS; i++)
        if (s->seats[i].is_known && s->seats[i].role != TUTTI_SERVERS_SERVER)
            CHECK(s->seats[i].member < lead_trainer_count(&w->params));
    for (uint32_t i = 0; i < SEATS; i++) /* nobody is there twice */
        for (uint32_t k = 0; k < i; k++)
            if (s->seats[i].is_known && s->seats[k].is_known &&
                (s->seats[i].role == TUTTI_SERVERS_SERVER) ==
                    (s->seats[k].role == TUTTI_SERVERS_SERVER))
                CHECK(s->seats[i].member != s->seats[k].member);
}

static void take_one(struct world *w)
{
    struct tutti_server *s = &w->server;
    struct tutti_seat *seat = &s->seats[below(w, SEATS)];
    uint32_t type;
    uint8_t bytes[PAYLOAD_MAX];
    size_t count;
    struct tutti_frames_got got;
    struct tutti_err err = {""};
    int status;

    while (!seat->is_known && all_are_there(w) && !chance(w, w->sense))
        seat = &s->seats[below(w, SEATS)];
    type = chance(w, w->sense) ? below(w, TYPES) : sensible_type(w, seat);
    count = put_message(w, seat, type, bytes);
    if (chance(w, w->sense))
        count = change(w, bytes, count);
    if (chance(w, 2 * w->sense))
        type = below(w, TYPES);
    decode(w, bytes, count);
    got = (struct tutti_frames_got){
        .type = type, .data = at_the_end(w, bytes, count), .bytes = count};
    status = tutti_server_take(s, seat, &got, &err);
    w->taken += status == 0;
    w->refused += status < 0;
    if (status < 0 && (status != -TUTTI_EINVAL || err.text[0] == '\0'))
        TEST_FAIL("seed %" PRIu64 ", message %u of %zu bytes: status %d: %s", test_seed, type,
                  count, status, err.text);
    if (status < 0 && s->failed == 0) {
        tutti_frames_close(seat->frames);
        seat->frames = NULL;
    }
    read_away(w);
    clear_seats(w);
    check_server(w);
}

static bool is_over(const struct world *w)
{
    struct tutti_err err;

    return w->server.failed != 0 ||
           (w->server.lead != NULL &&
            (tutti_lead_is_over(w->server.lead) || tutti_lead_check(w->server.lead, 0, &err) < 0));
}

TEST(whatever_message_comes_is_taken_or_refused)
{
    const uint64_t count = test_count(200000, 10000);
    struct world *w = calloc(1, sizeof(*w));
    uint8_t *memory =
        mmap(NULL, 2 * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct tutti_err err = {""};
    uint64_t servers = 0;

    REQUIRE(w != NULL && memory != MAP_FAILED);
    REQUIRE(mprotect(memory + PAGES, PAGES, PROT_NONE) == 0);
    w->end = memory + PAGES;
    tutti_random_seed(&w->random, test_seed);
    REQUIRE(tutti_model_new("linear-regression", NULL, &w->model, &err) == 0);
    for (uint64_t i = 0; i < count && test_failures == 0; servers++) {
        open_server(w);
        for (uint32_t k = 0; k < 400 && i < count && test_failures == 0 && !is_over(w); k++, i++)
            take_one(w);
        close_server(w);
    }
    printf("        %" PRIu64 " messages to %" PRIu64 " servers: %" PRIu64 " taken, %" PRIu64
           " refused, %" PRIu64 " gradients applied\n",
           count, servers, w->taken, w->refused, w->applied);
    CHECK(w->taken > count / 8); /* both ways were gone, and deep enough */
    CHECK(w->refused > count / 50);
    CHECK(w->applied > count / 1000);
    tutti_model_free(w->model);
    munmap(memory, 2 * PAGES);
    free(w);
}
