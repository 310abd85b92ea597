/* Parameter servers beside whom things go wrong: a task that is started twice, connections that say
 * nothing or do not read, a server 0 that goes in between, and long saves. This process is one of
 * them by hand, with messages of its own. */
#include "runtime/servers/lead.h"
#include "runtime/servers/server.h"
#include "runtime/servers/store.h"
#include "tests/runtime/servers_world.h"

static const tutti_ps WAIT_PS = 20 * TUTTI_PS_PER_S;

/* ---- this process ---------------------------------------------------------------------------- */

static struct tutti_frames *reach(uint32_t server)
{
    const struct tutti_frames_opts opts = {.size = sizeof(opts)};
    struct tutti_frames *frames = NULL;
    struct tutti_err err;

    if (tutti_frames_connect(&opts, play.servers[server], WAIT_PS, "a server", &frames, &err) < 0)
        TEST_FAIL("%s", err.text);
    return frames;
}

static struct tutti_frames_listener *listen_as(uint32_t server)
{
    const struct tutti_frames_opts opts = {.size = sizeof(opts)};
    struct tutti_frames_listener *listener = NULL;
    struct tutti_err err;

    if (tutti_frames_listen(&opts, play.servers[server], &listener, &err) < 0)
        TEST_FAIL("%s", err.text);
    return listener;
}

static struct tutti_frames *let_in(struct tutti_frames_listener *listener)
{
    struct tutti_frames *frames = NULL;

    CHECK_INT(tutti_frames_accept(listener, WAIT_PS, &frames, NULL), 0);
    return frames;
}

static void say(struct tutti_frames *frames, enum tutti_server_message message,
                const struct tutti_server_head *head, const void *body, size_t bytes)
{
    uint8_t packed[TUTTI_SERVER_HEAD_BYTES];
    const struct tutti_frames_part parts[2] = {{packed, sizeof(packed)}, {body, bytes}};

    tutti_server_head_put(head, packed);
    CHECK_INT(tutti_frames_send(frames, message, parts, bytes > 0 ? 2 : 1, NULL), 0);
}

static void say_hello(struct tutti_frames *frames, enum tutti_servers_role role, uint32_t index)
{
    struct tutti_servers_params params = play.params;
    struct tutti_server_layout *layout = NULL;
    struct tutti_workload *model = NULL;
    char texts[2][TUTTI_SERVER_TEXT_BYTES];
    const struct tutti_server_hello hello = {
        .role = role, .index = index, .model = texts[0], .training = texts[1]};
    uint8_t body[TUTTI_SERVER_HELLO_BYTES];
    struct tutti_frames_part part = {.data = body};

    REQUIRE(tutti_model_new(play.model != NULL ? play.model : "linear-regression", NULL, &model,
                            NULL) == 0);
    params.model = model;
    REQUIRE(tutti_server_layout_new(&params, &layout, NULL) == 0);
    tutti_servers_describe(&params, layout, texts[0], texts[1]);
    tutti_server_layout_free(layout);
    tutti_model_free(model);
    part.bytes = tutti_server_hello_put(&hello, body);
    CHECK_INT(tutti_frames_send(frames, TUTTI_MESSAGE_HELLO, &part, 1, NULL), 0);
}

/* The next message of that kind: its head; 0, or what the connection ended by. */
static int hear(struct tutti_frames *frames, enum tutti_server_message message,
                struct tutti_server_head *ret)
{
    struct tutti_frames_got got;
    int status;

    do
        status = tutti_frames_receive(frames, WAIT_PS, &got, NULL);
    while (status == 0 && got.type != message);
    return status == 0 ? tutti_server_head_get(got.data, got.bytes, ret, NULL) : status;
}

static struct actor *actor_of(enum tutti_servers_role role, uint32_t index)
{
    struct actor *a = cast->actor;

    while (a->role != role || a->index != index)
        a++;
    return a;
}

static void begin(uint32_t servers, uint32_t workers, uint64_t steps, tutti_ps deadline_ps)
{
    cast_new(servers, workers, steps);
    play.params.deadline_ps = deadline_ps;
    for (uint32_t i = 0; i < workers; i++)
        play.slow_us[i] = 1000;
}

/* ---- those that train ------------------------------------------------------------------------ */

TEST(of_a_task_that_is_started_twice_the_first_ends_and_says_why)
{
    struct tutti_frames *second;
    struct actor *first;

    begin(1, 2, 400, 10 * TUTTI_PS_PER_S);
    cast_start_all();
    REQUIRE(cast_wait_worker(1, 20));
    second = reach(0);
    say_hello(second, TUTTI_SERVERS_WORKER, 1);
    first = actor_of(TUTTI_SERVERS_WORKER, 1);
    CHECK(cast_reap(first, 10));
    if (strstr(first->text, "another process has come as this very task") == NULL)
        TEST_FAIL("status %d: %s", first->status, first->text);
    tutti_frames_close(second);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 400);
}

/* As many as there are seats; whoever comes after them takes part all the same. */
TEST(connections_that_say_nothing_lose_their_seats)
{
    enum { SEATS = 16 + 2 + 1 };
    struct tutti_frames *silent[SEATS];

    begin(1, 2, 40, 3 * TUTTI_PS_PER_S);
    (void)cast_start(TUTTI_SERVERS_SERVER, 0);
    for (uint32_t i = 0; i < SEATS; i++)
        silent[i] = reach(0);
    (void)cast_start(TUTTI_SERVERS_WORKER, 0);
    (void)cast_start(TUTTI_SERVERS_WORKER, 1);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 40);
    CHECK(strstr(actor_of(TUTTI_SERVERS_SERVER, 0)->notes, "does not say who it is") != NULL);
    for (uint32_t i = 0; i < SEATS; i++)
        tutti_frames_close(silent[i]);
}

/* It would be answered amid another worker's verdict. */
TEST(a_pull_ahead_of_all_verdicts_is_refused_by_server_0)
{
    struct tutti_server_head head;
    struct tutti_frames *ahead;

    begin(1, 2, 400, 10 * TUTTI_PS_PER_S);
    cast_start_all();
    cast_kill(actor_of(TUTTI_SERVERS_WORKER, 1));
    ahead = reach(0);
    say_hello(ahead, TUTTI_SERVERS_WORKER, 1);
    REQUIRE(hear(ahead, TUTTI_MESSAGE_START, &head) == 0);
    head.sequence += 1000000;
    say(ahead, TUTTI_MESSAGE_PULL, &head, NULL, 0);
    CHECK_INT(hear(ahead, TUTTI_MESSAGE_WEIGHTS, &head), -TUTTI_EIO);
    CHECK(strstr(actor_of(TUTTI_SERVERS_SERVER, 0)->notes, "it waits for verdict") != NULL);
    tutti_frames_close(ahead);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 400);
}

/* It asks for more than connections hold, and takes none of it. */
TEST(a_worker_that_does_not_read_keeps_nobody_up_for_the_deadline)
{
    struct tutti_server_head head;
    struct tutti_frames *stuck;

    begin(1, 2, 100, 3 * TUTTI_PS_PER_S);
    play.model = "mlp";
    (void)cast_start(TUTTI_SERVERS_SERVER, 0);
    (void)cast_start(TUTTI_SERVERS_WORKER, 0);
    stuck = reach(0);
    say_hello(stuck, TUTTI_SERVERS_WORKER, 1);
    REQUIRE(hear(stuck, TUTTI_MESSAGE_START, &head) == 0);
    for (uint32_t i = 0; i < 600; i++)
        say(stuck, TUTTI_MESSAGE_PULL, &head, NULL, 0);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 100);
    tutti_frames_close(stuck);
}

/* ---- server 0 -------------------------------------------------------------------------------- */

TEST(a_failure_is_as_long_as_its_message)
{
    uint8_t bytes[TUTTI_SERVER_HEAD_BYTES + 64];
    struct tutti_err err;

    memset(bytes, 'x', sizeof(bytes));
    CHECK_INT(tutti_server_failure_get(bytes, TUTTI_SERVER_HEAD_BYTES + 7, &err), -TUTTI_EIO);
    CHECK_TEXT(err.text, "xxxxxxx");
    CHECK_INT(tutti_server_failure_get(bytes, TUTTI_SERVER_HEAD_BYTES, &err), -TUTTI_EIO);
    CHECK_TEXT(err.text, "");
}

/* Behind the text lies what comes next: for a sanitizer to see. */
TEST(why_all_is_to_end_is_read_to_its_end_and_no_further)
{
    const struct tutti_server_head head = {.step = 0};
    char next[400];

    memset(next, 'x', sizeof(next));
    for (uint32_t with = 0; with < 2; with++) {
        struct tutti_frames_listener *listener;
        struct tutti_frames *frames;
        struct actor *server;

        begin(2, 1, 10, 10 * TUTTI_PS_PER_S);
        listener = listen_as(0);
        server = cast_start(TUTTI_SERVERS_SERVER, 1);
        frames = let_in(listener);
        (void)kill(server->pid, SIGSTOP); /* both are there when it looks */
        say(frames, TUTTI_MESSAGE_FAIL, &head, "no zero", with > 0 ? 7 : 0);
        say(frames, TUTTI_MESSAGE_ALIVE, &head, next, sizeof(next));
        (void)kill(server->pid, SIGCONT);
        CHECK(cast_reap(server, 10));
        if (server->status == 0 || strcmp(server->text, with > 0 ? "no zero" : "") != 0)
            TEST_FAIL("status %d: '%s'", server->status, server->text);
        tutti_frames_close(frames);
        tutti_frames_listener_close(listener);
    }
}

TEST(a_server_0_that_goes_before_its_welcome_is_tried_again)
{
    struct tutti_frames_listener *listener;

    begin(2, 1, 40, 5 * TUTTI_PS_PER_S);
    (void)cast_start(TUTTI_SERVERS_SERVER, 1);
    (void)cast_start(TUTTI_SERVERS_WORKER, 0);
    listener = listen_as(0); /* which no child has as well */
    tutti_frames_close(let_in(listener));
    tutti_frames_close(let_in(listener));
    tutti_frames_listener_close(listener);
    (void)cast_start(TUTTI_SERVERS_SERVER, 0);
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 40);
}

/* Somebody wants one process to end, and server 0 dies of it before it has heard so. */
static void stop_by(enum tutti_servers_role role)
{
    struct actor *by;
    struct actor *lead;

    begin(2, 2, 1000000, 10 * TUTTI_PS_PER_S);
    play.watches = true;
    cast_start_all();
    REQUIRE(cast_wait_step(20, 20));
    by = actor_of(role, 1);
    lead = actor_of(TUTTI_SERVERS_SERVER, 0);
    (void)kill(lead->pid, SIGSTOP);
    atomic_store(&by->wanted, TUTTI_SERVERS_STOP);
    for (uint32_t i = 0; i < 500 && atomic_load(&by->wanted) != 0; i++)
        cast_pause_us(1000); /* unless it waits for weights just now */
    cast_pause_us(50000);    /* and it is sent */
    cast_kill(lead);
    (void)cast_start(TUTTI_SERVERS_SERVER, 0);
    cast_end(30);
    CHECK(actor_of(role, 1)->result.stopped);
}

TEST(a_server_0_that_is_started_anew_hears_again_that_all_is_to_end)
{
    stop_by(TUTTI_SERVERS_WORKER);
    stop_by(TUTTI_SERVERS_SERVER);
}

/* ---- the chief, who has long to do ----------------------------------------------------------- */

TEST(a_chief_may_set_up_for_longer_than_the_deadline)
{
    begin(2, 2, 40, TUTTI_PS_PER_S);
    play.slow_init_us = 1700000;
    cast_start_all();
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 40);
}

static void keep_set_up(void *context, uint32_t trainer, enum tutti_server_message message,
                        const struct tutti_server_head *head)
{
    struct tutti_server_head *set_up = context;

    if (trainer == 0 && message == TUTTI_MESSAGE_SET_UP)
        *set_up = *head;
}

static void take_verdict(void *context, const struct tutti_server_head *verdict)
{
    (void)context;
    (void)verdict;
}

static void take_told(void *context, const struct tutti_servers_told *told)
{
    (void)context;
    (void)told;
}

static struct tutti_lead *new_lead(uint32_t servers, struct tutti_server_head *set_up)
{
    const struct tutti_lead_calls calls = {
        .context = set_up, .send = keep_set_up, .verdict = take_verdict, .told = take_told};
    struct tutti_lead *lead = NULL;

    begin(servers, 1, 100, 10 * TUTTI_PS_PER_S);
    CHECK_INT(tutti_lead_new(&play.params, &calls, 0, &lead, NULL), 0);
    return lead;
}

/* A lead whose model is set up, at second 0. */
static void set_up(struct tutti_lead *lead, const struct tutti_server_head *order)
{
    tutti_lead_server_joined(lead, 0, 0);
    tutti_lead_trainer_joined(lead, 0);
    CHECK(order->generation > 0);
    tutti_lead_set_up(lead, 0, order);
}

TEST(a_chief_that_saves_for_longer_than_the_deadline_says_that_it_is_alive)
{
    struct tutti_server_head order = {.generation = 0};
    struct tutti_lead *lead = new_lead(1, &order);
    struct tutti_err err;

    set_up(lead, &order);
    CHECK_INT(tutti_lead_check(lead, 9, &err), 0);
    tutti_lead_trainer_alive(lead, 0);
    CHECK_INT(tutti_lead_check(lead, 18, &err), 0);
    CHECK_INT(tutti_lead_check(lead, 20, &err), -TUTTI_ETIME);
    tutti_lead_free(lead);
}

/* What a server keeps may be of a server 0 whose clock was ahead. */
TEST(generations_go_on_from_those_that_servers_have)
{
    const uint64_t kept = (uint64_t)1 << 62;
    struct tutti_server_head order = {.generation = 0};
    struct tutti_lead *lead = new_lead(2, &order);

    tutti_lead_server_joined(lead, 0, 0);
    tutti_lead_trainer_joined(lead, 0);
    CHECK_INT(order.generation, 0);
    tutti_lead_server_joined(lead, 1, kept);
    CHECK(order.generation > kept);
    tutti_lead_free(lead);
}
