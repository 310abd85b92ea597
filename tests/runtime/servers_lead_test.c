/* What server 0 decides, under random orders of events and without I/O: whoever is lost or comes
 * back when, and whatever message comes late, twice or of an older generation, verdicts are
 * numbered one by one, no gradient is applied twice or after its time, steps follow each other, and
 * it ends: well, or by the name of who is gone for good. */
#include "tests/runtime/servers_lead_world.h"

enum { EVENTS = 160, SETTLE_EVENTS = 20000 };

/* ---- those that train ------------------------------------------------------------------------ */

static void write_checkpoint(struct world *w, const struct tutti_server_head *order)
{
    if (order->generation == w->generation && order->step > w->disk && w->keeps)
        w->disk = order->step;
}

static void read_frame(struct world *w, struct trainer *t)
{
    struct frame got = take(&t->in);

    switch (got.type) {
    case TUTTI_MESSAGE_START:
        t->busy = true;
        t->pulled = false;
        t->work = got.head;
        break;
    case TUTTI_MESSAGE_ABORT:
        if (t->work.generation == got.head.generation &&
            (got.head.episode == TUTTI_SERVER_ALL_EPISODES || got.head.episode == t->work.episode))
            t->busy = false;
        break;
    case TUTTI_MESSAGE_SET_UP:
        got.head.step = w->disk;
        put(w, &t->out, TUTTI_MESSAGE_IS_SET_UP, &got.head);
        break;
    case TUTTI_MESSAGE_SAVE:
        write_checkpoint(w, &got.head);
        put(w, &t->out, TUTTI_MESSAGE_SAVED, &got.head);
        break;
    default:
        t->finished = true;
        t->busy = false;
        break;
    }
}

/* It reads a message, or goes on with its work; false: it has nothing to do. */
static bool act(struct world *w, struct trainer *t)
{
    if (!t->alive || (t->in.count == 0 && !t->busy))
        return false;
    if (t->in.count > 0 && (!t->busy || chance(w, 2))) {
        read_frame(w, t);
        return true;
    }
    if (!t->pulled)
        put(w, &t->out, TUTTI_MESSAGE_PULL, &t->work);
    else
        put(w, &t->out, TUTTI_MESSAGE_DONE, &t->work);
    t->busy = !t->pulled;
    t->pulled = true;
    return true;
}

/* ---- to the lead ----------------------------------------------------------------------------- */

static void hear_done(struct world *w, uint32_t trainer, const struct tutti_server_head *head)
{
    const struct tutti_server_report report = {.compute_s = 1};
    struct tutti_server_head as = *head;

    if (w->spoil == SPOIL_LATE && w->trainer[trainer].open)
        as = w->trainer[trainer].last;
    w->coming = head;
    w->coming_of = trainer;
    tutti_lead_done(w->lead, trainer, &as, &report);
    w->coming = NULL;
}

static void hear(struct world *w, uint32_t trainer, const struct frame *frame)
{
    struct trainer *t = &w->trainer[trainer];
    const struct tutti_server_head *head = &frame->head;

    switch (frame->type) {
    case TUTTI_MESSAGE_PULL:
        if (t->open && is_same(&t->last, head))
            t->read_step = w->step;
        w->coming = head;
        w->coming_of = trainer;
        tutti_lead_pulled(w->lead, trainer, head);
        w->coming = NULL;
        break;
    case TUTTI_MESSAGE_DONE:
        hear_done(w, trainer, head);
        break;
    case TUTTI_MESSAGE_IS_SET_UP:
        if (trainer == 0 && t->alive && head->generation == w->generation &&
            head->generation == tutti_lead_generation(w->lead) && w->ready != head->generation) {
            w->ready = head->generation;
            w->step = head->step;
            w->gathered = 0;
            w->told = false;
        }
        tutti_lead_set_up(w->lead, trainer, head);
        break;
    default:
        tutti_lead_saved(w->lead, trainer, head);
        break;
    }
}

static void keep_late(struct world *w, uint32_t trainer, const struct frame *frame)
{
    if (w->late_count == LATE_MAX)
        return;
    w->late[w->late_count] = *frame;
    w->late_of[w->late_count++] = trainer;
}

static bool deliver(struct world *w, uint32_t trainer)
{
    struct frame frame;

    if (w->trainer[trainer].out.count == 0)
        return false;
    frame = take(&w->trainer[trainer].out);
    if (chance(w, 6))
        keep_late(w, trainer, &frame); /* comes again */
    hear(w, trainer, &frame);
    return true;
}

/* Of somebody who may have been lost, and have come back, since. */
static bool deliver_late(struct world *w)
{
    uint32_t i;
    uint32_t of;
    struct frame frame;

    if (w->late_count == 0)
        return false;
    i = (uint32_t)tutti_random_below(&w->random, w->late_count);
    frame = w->late[i];
    of = w->late_of[i];
    w->late[i] = w->late[--w->late_count];
    w->late_of[i] = w->late_of[w->late_count];
    hear(w, of, &frame);
    return true;
}

static void lose(struct world *w, uint32_t trainer)
{
    struct trainer *t = &w->trainer[trainer];

    while (t->out.count > 0) {
        const struct frame frame = take(&t->out);

        if (chance(w, 2))
            keep_late(w, trainer, &frame);
    }
    t->in.count = 0;
    t->alive = t->busy = t->open = false;
    tutti_lead_trainer_lost(w->lead, trainer);
}

static void come(struct world *w, uint32_t trainer)
{
    struct trainer *t = &w->trainer[trainer];

    if (t->alive && !chance(w, 4)) /* or it is replaced by one more of its name */
        return;
    t->in.count = t->out.count = 0;
    t->busy = t->open = false;
    t->alive = true;
    tutti_lead_trainer_joined(w->lead, trainer);
}

/* Server 0 is the lead's own, and stays. */
static void lose_or_bring_server(struct world *w, uint32_t server)
{
    if (server == 0)
        return;
    w->server_alive[server] = !w->server_alive[server];
    if (w->server_alive[server])
        tutti_lead_server_joined(
            w->lead, server,
            chance(w, 4) ? tutti_lead_generation(w->lead) + tutti_random_below(&w->random, 5) : 0);
    else
        tutti_lead_server_lost(w->lead, server);
}

static void stop(struct world *w)
{
    w->stop_asked = true;
    tutti_lead_stop(w->lead);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void check_clock(struct world *w, double more_s, int expected)
{
    struct tutti_err err = {""};
    int status;

    w->now_s += more_s;
    tutti_lead_set_now(w->lead, w->now_s);
    status = tutti_lead_check(w->lead, w->now_s, &err);
    if (status != expected)
        blame(w, "status %d for %d: '%.100s'", status, expected, err.text);
}

static void random_events(struct world *w)
{
    const bool may_stop = chance(w, 4);

    for (uint32_t k = 0; k < EVENTS && w->why[0] == '\0'; k++) {
        const uint32_t t = (uint32_t)tutti_random_below(&w->random, w->trainer_count);

        if (chance(w, 24))
            lose(w, t);
        else if (chance(w, 12))
            come(w, t);
        else if (chance(w, 40))
            lose_or_bring_server(w,
                                 (uint32_t)tutti_random_below(&w->random, w->params.server_count));
        else if (chance(w, 24))
            tutti_lead_save_due(w->lead);
        else if (may_stop && chance(w, 100))
            stop(w);
        else if (chance(w, 12))
            (void)deliver_late(w);
        else if (chance(w, 2))
            (void)act(w, &w->trainer[t]);
        else
            (void)deliver(w, t);
        check_clock(w, 0.01, 0);
    }
}

static void bring_all(struct world *w)
{
    for (uint32_t s = 1; s < w->params.server_count; s++)
        if (w->server_alive[s] == (w->gone == w->trainer_count + s))
            lose_or_bring_server(w, s);
    for (uint32_t t = 0; t < w->trainer_count; t++)
        if (t == w->gone) {
            if (w->trainer[t].alive)
                lose(w, t);
        } else if (!w->trainer[t].alive)
            come(w, t);
}

/* No more is lost; who is not gone for good comes back, and all that is under way arrives. */
static void settle(struct world *w)
{
    bool moves = true;

    bring_all(w);
    for (uint32_t k = 0; moves && k < SETTLE_EVENTS && w->why[0] == '\0'; k++) {
        moves = deliver_late(w);
        for (uint32_t t = 0; t < w->trainer_count; t++) {
            moves = act(w, &w->trainer[t]) || moves;
            if (chance(w, 2) || !moves)
                moves = deliver(w, t) || moves;
        }
        for (uint32_t t = 0; t < w->trainer_count; t++)
            moves = moves || w->trainer[t].out.count > 0;
    }
    if (moves)
        blame(w, "it does not come to an end");
}

static void check_end(struct world *w)
{
    struct tutti_servers_result result;
    uint64_t applied = 0;

    if (!tutti_lead_is_over(w->lead)) {
        if (w->gone == UINT32_MAX)
            blame(w, "it stands still at step %llu", (unsigned long long)w->step);
        check_clock(w, 1000, -TUTTI_ETIME);
        return;
    }
    check_clock(w, 1000, 0);
    tutti_lead_result(w->lead, &result);
    for (uint32_t i = 0; i < w->params.worker_count; i++)
        applied += result.by_worker[i];
    if (applied != w->applied || result.applied != w->applied)
        blame(w, "%llu gradients were applied, and %llu counted", (unsigned long long)w->applied,
              (unsigned long long)result.applied);
    if (result.stopped ? !w->stop_asked : result.steps != w->params.steps)
        blame(w, "it ends at step %llu", (unsigned long long)result.steps);
    /* One that was written as its generation ended may be newer than the lead knows. */
    if (w->keeps && (result.stopped ? w->disk < result.steps : w->disk != result.steps))
        blame(w, "it ends at step %llu, and step %llu is saved", (unsigned long long)result.steps,
              (unsigned long long)w->disk);
    for (uint32_t t = 0; t < w->trainer_count; t++)
        if (w->trainer[t].alive && !w->trainer[t].finished)
            blame(w, "trainer %u is not told of the end", t);
}

static void draw_params(struct world *w)
{
    static const char *const servers[SERVERS_MAX] = {"one:1", "two:2", "three:3"};
    struct tutti_servers_params *p = &w->params;

    p->size = sizeof(*p);
    p->server_count = 1 + (uint32_t)tutti_random_below(&w->random, SERVERS_MAX);
    p->worker_count = 1 + (uint32_t)tutti_random_below(&w->random, TRAINERS_MAX - 1);
    p->has_chief = chance(w, 2);
    p->servers = servers;
    p->steps = 1 + tutti_random_below(&w->random, 40);
    p->synchronous = chance(w, 2);
    p->aggregate = p->synchronous
                       ? (uint32_t)tutti_random_below(&w->random, 2 * (uint64_t)p->worker_count)
                       : 0;
    p->late = (enum tutti_late)tutti_random_below(&w->random, 3);
    p->slack = chance(w, 2) ? 0 : 1 + (uint32_t)tutti_random_below(&w->random, 3);
    p->staleness_max = chance(w, 2) ? 0 : 1 + (uint32_t)tutti_random_below(&w->random, 3);
    p->save_steps = chance(w, 2) ? 0 : 1 + tutti_random_below(&w->random, 8);
    p->deadline_ps = 30 * TUTTI_PS_PER_S;
    w->keeps = chance(w, 4) == false;
    w->trainer_count = lead_trainer_count(p);
    w->gone = UINT32_MAX;
}

/* What came of all seeds. */
struct tally {
    uint64_t over;
    uint64_t stopped;
    uint64_t by_name;
    uint64_t applied;
    uint64_t dropped_late;
    uint64_t set_up;
};

static void play(uint64_t seed, enum spoil spoil, struct world *w, struct tally *tally)
{
    const struct tutti_lead_calls calls = {
        .context = w, .send = on_send, .verdict = on_verdict, .told = on_told};
    struct tutti_servers_result result;
    struct tutti_err err = {""};

    *w = (struct world){.spoil = spoil};
    tutti_random_seed(&w->random, seed);
    draw_params(w);
    if (tutti_lead_new(&w->params, &calls, 0, &w->lead, &err) < 0) {
        blame(w, "%.150s", err.text);
        return;
    }
    w->server_alive[0] = true;
    tutti_lead_server_joined(w->lead, 0, 0);
    bring_all(w);
    random_events(w);
    if (chance(w, 5))
        w->gone =
            (uint32_t)tutti_random_below(&w->random, w->trainer_count + w->params.server_count);
    if (w->gone == w->trainer_count)
        w->gone = UINT32_MAX; /* server 0 */
    settle(w);
    check_end(w);
    tutti_lead_result(w->lead, &result);
    tally->over += tutti_lead_is_over(w->lead);
    tally->by_name += !tutti_lead_is_over(w->lead);
    tally->stopped += result.stopped;
    tally->applied += result.applied;
    tally->dropped_late += result.dropped_late;
    tally->set_up += result.set_up;
    tutti_lead_free(w->lead);
}

TEST(in_any_order_each_gradient_is_decided_once_and_it_ends)
{
    const uint64_t count = test_count(100000, 10000);
    static struct world w;
    struct tally tally = {0};

    for (uint64_t i = 0; i < count && test_failures < 5; i++) {
        play(test_seed + i, SPOIL_NOTHING, &w, &tally);
        if (w.why[0] != '\0')
            TEST_FAIL("--seed=%" PRIu64 ": %s", test_seed + i, w.why);
    }
    printf("        %" PRIu64 " orders: %" PRIu64 " to the end, %" PRIu64 " stopped, %" PRIu64
           " by name; %" PRIu64 " gradients applied, %" PRIu64 " late, %" PRIu64 " settings up\n",
           count, tally.over, tally.stopped, tally.by_name, tally.applied, tally.dropped_late,
           tally.set_up);
    if (count < 200)
        return;
    CHECK(tally.over > count / 2); /* the orders met what they are for */
    CHECK(tally.by_name > count / 50);
    CHECK(tally.stopped > count / 50);
    CHECK(tally.dropped_late > count);
    CHECK(tally.set_up > 2 * count);
}

TEST(a_lead_that_errs_is_noticed)
{
    static struct world w;
    struct tally tally = {0};

    for (enum spoil spoil = SPOIL_TWICE; spoil < SPOIL_KINDS; spoil++) {
        uint32_t noticed = 0;

        for (uint64_t i = 0; i < 100; i++) {
            play(test_seed + i, spoil, &w, &tally);
            noticed += w.why[0] != '\0';
        }
        if (noticed < 20)
            TEST_FAIL("spoilt in way %d, and only %u of 100 seeds show it", (int)spoil, noticed);
    }
}
