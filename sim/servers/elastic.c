/* An elastic group in virtual time: steps of whoever is there, as its coordinator says. */
#include <assert.h>
#include <math.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/servers.h"

/* 26 days, and as many losses as take a second or some. */
static const tutti_ps FOREVER_PS = INT64_MAX / 4;
enum { FAILURES_MAX = 1000000 };

struct member {
    bool is_present;
    bool works;           /* in the step under way */
    bool is_leaving;      /* has had notice, and is not let go yet */
    tutti_ps change_ps;   /* when it is lost or, if it is not there, comes */
    uint32_t next_change; /* of the list */
    bool has_notice;      /* of that change */
    tutti_ps known_ps;    /* when its loss is known; INT64_MAX: it is, or there is none */
    uint32_t incarnation; /* of that */
    uint64_t episode;
};

struct job {
    struct tutti_elastic_opts opts;
    struct tutti_coordinator *coordinator;
    struct tutti_random random;
    struct member *member;
    struct tutti_elastic_price *price; /* [members + 1] */
    bool *is_priced;
    tutti_ps now_ps;
    /* The step under way: since when, of that to meet and to give the state to all, and its end;
     * INT64_MAX: there is none, or it waits for one that is lost. */
    tutti_ps begin_ps;
    tutti_ps meet_ps;
    tutti_ps give_ps;
    tutti_ps end_ps;
    uint64_t group;
    uint32_t group_size; /* 0: no step is under way */
    tutti_ps idle_ps;    /* since when */
    tutti_ps save_ps;    /* when a checkpoint is due */
    tutti_ps saved_ps;   /* when the one that is being written is; INT64_MAX: none is */
    struct tutti_coord_event saved;
    bool set_up; /* once */
    bool finished;
    int status;
    struct tutti_err *err;
    struct tutti_elastic result;
};

static uint32_t member_count(const struct job *j)
{
    return j->opts.params.member_count;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static const struct tutti_elastic_price *price_of(struct job *j, uint32_t members)
{
    if (!j->is_priced[members] && j->status == 0)
        j->status = j->opts.price(j->opts.context, members, &j->price[members], j->err);
    j->is_priced[members] = true;
    return &j->price[members];
}

/* What one event has asked for, of which a step is made. */
struct asked {
    uint32_t starts;
    uint64_t group;
    bool copies;
    bool restores; /* from a checkpoint, or the first values */
};

static void begin_step(struct job *j, const struct asked *asked)
{
    const struct tutti_elastic_price *price = price_of(j, asked->starts);
    struct tutti_elastic *r = &j->result;
    bool anew = asked->group != j->group;

    if (j->group_size == 0)
        r->waiting_ps += j->now_ps - j->idle_ps;
    j->begin_ps = j->now_ps;
    j->meet_ps = anew ? j->opts.rendezvous_ps : 0;
    j->give_ps = asked->copies ? price->broadcast_ps : 0;
    if (asked->restores && j->set_up) /* the first time it is no checkpoint */
        j->give_ps += j->opts.restore_ps;
    j->set_up |= asked->restores;
    r->groups += anew;
    j->group = asked->group;
    j->group_size = asked->starts;
    j->end_ps = j->begin_ps + j->meet_ps + j->give_ps + price->step_ps;
    r->least = r->least == 0 || asked->starts < r->least ? asked->starts : r->least;
    r->most = asked->starts > r->most ? asked->starts : r->most;
}

static tutti_ps less(tutti_ps a, tutti_ps b)
{
    return a < b ? a : b;
}

/* What the step under way has taken: to meet, to give the state; and, of one that is broken off,
 * computing in vain. No step is under way then. */
static void account(struct job *j, bool broken)
{
    struct tutti_elastic *r = &j->result;
    tutti_ps spent_ps = j->now_ps - j->begin_ps;
    tutti_ps meet_ps = less(j->meet_ps, spent_ps);
    tutti_ps give_ps = less(j->give_ps, spent_ps - meet_ps);

    r->rendezvous_ps += meet_ps;
    r->broadcast_ps += give_ps;
    r->broken_off += broken;
    if (broken)
        r->broken_ps += spent_ps - meet_ps - give_ps;
    j->group_size = 0;
    j->idle_ps = j->now_ps;
    j->end_ps = INT64_MAX;
}

static void obey(struct job *j, const struct tutti_coord_action *a, struct asked *asked)
{
    switch (a->kind) {
    case TUTTI_ACTION_START:
        asked->starts++;
        asked->group = a->number;
        j->member[a->member].works = true;
        break;
    case TUTTI_ACTION_ABORT:
        j->member[a->member].works = false;
        break;
    case TUTTI_ACTION_COPY:
        asked->copies = true;
        break;
    case TUTTI_ACTION_INITIALISE:
        asked->restores = true;
        break;
    case TUTTI_ACTION_RESTORE:
        asked->restores |= a->number == 1;
        break;
    case TUTTI_ACTION_SAVE:
        j->saved = (struct tutti_coord_event){TUTTI_EVENT_SAVED, a->member, a->incarnation,
                                              a->episode, a->step};
        j->saved_ps = j->now_ps + j->opts.save_ps;
        break;
    case TUTTI_ACTION_FINISH: /* all, or one that leaves */
        j->member[a->member].works = false;
        j->result.left += j->member[a->member].is_leaving;
        j->member[a->member].is_leaving = false;
        break;
    default:
        break;
    }
}

static void feed(struct job *j, const struct tutti_coord_event *event)
{
    uint64_t before = tutti_coordinator_step(j->coordinator);
    struct asked asked = {.starts = 0};
    uint64_t step;
    uint32_t count;
    const struct tutti_coord_action *action =
        tutti_coordinator_event(j->coordinator, event, &count);

    for (uint32_t i = 0; i < count; i++)
        obey(j, &action[i], &asked);
    step = tutti_coordinator_step(j->coordinator);
    if (step < before)
        j->result.repeated += before - step;
    j->finished = step >= j->opts.params.last_step;
    if (asked.starts > 0)
        begin_step(j, &asked);
}

static void feed_of(struct job *j, enum tutti_coord_event_kind kind, uint32_t member)
{
    const struct tutti_coord_member *m = tutti_coordinator_member(j->coordinator, member);

    feed(j, &(struct tutti_coord_event){kind, member, m->incarnation, m->episode, 0});
}

/* All members of the group have done it. */
static void end_step(struct job *j)
{
    uint32_t size = j->group_size;

    j->result.samples += price_of(j, size)->samples;
    account(j, false);
    for (uint32_t i = 0; i < member_count(j) && size > 0; i++)
        if (j->member[i].works) {
            j->member[i].works = false;
            size--; /* the last of them begins the next step */
            feed_of(j, TUTTI_EVENT_DONE, i);
        }
}

/* ---- who is lost and who comes --------------------------------------------------------------- */

static tutti_ps life_ps(struct job *j)
{
    double life = -log(1 - tutti_random_unit(&j->random)) * (double)j->opts.mtbf_ps;

    return j->opts.mtbf_ps > 0 && life < 4e18 ? j->now_ps + (tutti_ps)life + 1 : INT64_MAX;
}

static void next_change(struct job *j, uint32_t member)
{
    struct member *m = &j->member[member];

    m->change_ps = INT64_MAX;
    m->has_notice = false;
    if (j->opts.change_count == 0) {
        m->change_ps = m->is_present ? life_ps(j) : j->now_ps + j->opts.restart_ps;
        return;
    }
    while (m->next_change < j->opts.change_count) {
        const struct tutti_servers_change *c = &j->opts.changes[m->next_change++];

        if (c->index != member || c->comes == m->is_present)
            continue;
        m->change_ps = c->at_ps;
        m->has_notice = c->leaves;
        return;
    }
}

/* A loss is known later, and until then the others wait for it. */
static void lose(struct job *j, uint32_t member)
{
    const struct tutti_coord_member *c = tutti_coordinator_member(j->coordinator, member);
    struct member *m = &j->member[member];

    j->result.failures++;
    m->is_present = false;
    m->incarnation = c->incarnation;
    m->episode = c->episode;
    m->known_ps = j->now_ps + j->opts.detect_ps;
    if (m->works)
        j->end_ps = INT64_MAX;
    next_change(j, member);
}

/* A step that it was in is broken off. */
static void break_off(struct job *j, uint32_t member)
{
    if (!j->member[member].works || j->group_size == 0)
        return;
    account(j, true);
    j->member[member].works = false;
}

static void know_loss(struct job *j, uint32_t member)
{
    struct member *m = &j->member[member];

    m->known_ps = INT64_MAX;
    break_off(j, member);
    if (j->saved_ps != INT64_MAX && j->saved.member == member)
        j->saved_ps = INT64_MAX;
    feed(j, &(struct tutti_coord_event){TUTTI_EVENT_LOST, member, m->incarnation, m->episode, 0});
}

static void change(struct job *j, uint32_t member)
{
    struct member *m = &j->member[member];

    if (m->is_present && m->has_notice) {
        m->is_present = false;
        m->is_leaving = true;
        next_change(j, member);
        feed_of(j, TUTTI_EVENT_LEAVING, member);
        return;
    }
    if (m->is_present) {
        lose(j, member);
        return;
    }
    if (m->known_ps != INT64_MAX) /* it is back before its loss was known */
        know_loss(j, member);
    break_off(j, member); /* or before it was let go, which loses it */
    m->is_leaving = false;
    m->is_present = true;
    next_change(j, member);
    feed_of(j, TUTTI_EVENT_JOINED, member);
}

/* ---- the loop -------------------------------------------------------------------------------- */

static tutti_ps next_ps(const struct job *j)
{
    tutti_ps next = j->end_ps < j->saved_ps ? j->end_ps : j->saved_ps;

    for (uint32_t i = 0; i < member_count(j); i++) {
        const struct member *m = &j->member[i];

        next = m->change_ps < next ? m->change_ps : next;
        next = m->known_ps < next ? m->known_ps : next;
    }
    return next;
}

static void happen(struct job *j)
{
    if (j->saved_ps <= j->now_ps) {
        j->saved_ps = INT64_MAX;
        j->result.checkpoints++;
        feed(j, &j->saved);
    }
    if (j->save_ps <= j->now_ps) { /* looked at when something happens: it waits for a step */
        j->save_ps = j->now_ps + j->opts.save_every_ps;
        feed(j, &(struct tutti_coord_event){.kind = TUTTI_EVENT_SAVE_DUE});
    }
    for (uint32_t i = 0; i < member_count(j) && !j->finished && j->status == 0; i++) {
        if (j->member[i].known_ps <= j->now_ps)
            know_loss(j, i);
        if (j->member[i].change_ps <= j->now_ps)
            change(j, i);
    }
    if (j->end_ps <= j->now_ps && !j->finished && j->status == 0)
        end_step(j);
}

static bool comes_later(const struct job *j, uint32_t member)
{
    for (uint32_t i = 0; i < j->opts.change_count; i++)
        if (j->opts.changes[i].index == member)
            return j->opts.changes[i].comes;
    return false;
}

static int run(struct job *j, struct tutti_err *err)
{
    j->end_ps = j->saved_ps = INT64_MAX;
    j->save_ps = j->opts.save_every_ps > 0 ? j->opts.save_every_ps : INT64_MAX;
    for (uint32_t i = 0; i < member_count(j); i++) {
        j->member[i].is_present = !comes_later(j, i);
        j->member[i].known_ps = INT64_MAX;
        next_change(j, i);
    }
    for (uint32_t i = 0; i < member_count(j); i++)
        if (j->member[i].is_present)
            feed_of(j, TUTTI_EVENT_JOINED, i);
    while (!j->finished && j->status == 0) {
        tutti_ps next = next_ps(j);

        if (next == INT64_MAX)
            return tutti_fail(err, TUTTI_ECHECK,
                              "training stands still at step %llu: fewer members than the least, "
                              "%u, and none is to come",
                              (unsigned long long)tutti_coordinator_step(j->coordinator),
                              j->opts.params.least_members > 0 ? j->opts.params.least_members : 1);
        if (next > FOREVER_PS || j->result.failures > FAILURES_MAX)
            return tutti_fail(err, TUTTI_ECHECK,
                              "training fails more often than it gets on: step %llu after %llu "
                              "losses",
                              (unsigned long long)tutti_coordinator_step(j->coordinator),
                              (unsigned long long)j->result.failures);
        assert(next >= j->now_ps); /* time never runs back */
        j->now_ps = next;
        happen(j);
    }
    return j->status;
}

static int check(const struct tutti_elastic_opts *opts, struct tutti_err *err)
{
    if (opts->price == NULL || opts->params.last_step <= opts->params.first_step)
        return tutti_fail(err, TUTTI_EINVAL, "an elastic group needs prices and a last step");
    if (opts->change_count > 0 && opts->mtbf_ps > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "losses are drawn, and listed as well ('%u' changes; one of both)",
                          opts->change_count);
    for (uint32_t i = 0; i < opts->change_count; i++) {
        const struct tutti_servers_change *c = &opts->changes[i];

        if (c->is_server)
            return tutti_fail(err, TUTTI_EINVAL, "server '%u' of an elastic group (workers alone)",
                              c->index);
        if (c->index >= opts->params.member_count)
            return tutti_fail(err, TUTTI_EINVAL, "worker '%u' is lost, or comes, of %u (0 to %u)",
                              c->index, opts->params.member_count, opts->params.member_count - 1);
        if (c->at_ps < 0 || (i > 0 && c->at_ps < c[-1].at_ps))
            return tutti_fail(err, TUTTI_EINVAL, "losses are not in the order of time");
    }
    return 0;
}

static int set_up(struct job *j, struct tutti_arena *arena, struct tutti_err *err)
{
    const struct tutti_coordinator_ops *ops = NULL;
    const uint32_t count = member_count(j);
    int status = tutti_coordinator_find("elastic", &ops, err);

    for (uint32_t i = 0; i < count; i++)
        j->opts.params.first_members += !comes_later(j, i);
    if (status == 0)
        status = tutti_coordinator_new(ops, &j->opts.params, &j->coordinator, err);
    if (status < 0)
        return status;
    j->member = tutti_arena_take(arena, count, sizeof(*j->member));
    j->price = tutti_arena_take(arena, (size_t)count + 1, sizeof(*j->price));
    j->is_priced = tutti_arena_take(arena, (size_t)count + 1, sizeof(*j->is_priced));
    if (j->member == NULL || j->price == NULL || j->is_priced == NULL)
        return tutti_nomem(err);
    tutti_random_seed(&j->random, j->opts.seed);
    return 0;
}

int tutti_elastic_play(const struct tutti_elastic_opts *opts, struct tutti_elastic *ret,
                       struct tutti_err *err)
{
    struct job j = {.now_ps = 0, .err = err};
    struct tutti_arena *arena;
    int status = tutti_take("tutti_elastic_opts", &j.opts, sizeof(j.opts), opts,
                            TUTTI_BYTES_TO(struct tutti_elastic_opts, seed), err);

    if (status == 0)
        status = check(&j.opts, err);
    if (status < 0)
        return status;
    arena = tutti_arena_new();
    status = arena == NULL ? tutti_nomem(err) : set_up(&j, arena, err);
    if (status == 0)
        status = run(&j, err);
    if (status == 0) {
        j.result.stats = *tutti_coordinator_stats(j.coordinator);
        j.result.total_ps = j.now_ps;
        j.result.steps = tutti_coordinator_step(j.coordinator) - j.opts.params.first_step;
        *ret = j.result;
    }
    tutti_coordinator_free(j.coordinator);
    tutti_arena_free(arena);
    return status;
}
