/* Elastic training: steps of whoever is there. A member that is lost breaks a step off, which the
 * others make again from what they had before it; who comes gets that from one of them; who would
 * leave goes at a step's end. The coordinator "elastic" says all that (members.h); this carries it
 * out, and keeps what training has come to: as of the step that all have done, and as of the one
 * that this process has done and does not know of the others yet. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group.h"
#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "tools/sink.h"
#include "tools/train/members.h"
#include "tools/train/real.h"

enum { STALLS = 3 }; /* so often in a row the same ones may break a step off, and lose nobody */

struct course {
    const struct tutti_args *args;
    struct tutti_train_real *real;
    struct tutti_sink *sink;
    struct tutti_train_members *members;
    struct tutti_train_real_page page;
    bool has_page;
    void *kept[2];    /* states; as of the step that all have done: */
    uint32_t current; /* this one, */
    bool holds;       /* if there is one; */
    bool ahead;       /* and the other as of the step after that */
    uint64_t step;    /* that all have done */
    bool due;         /* all have done the next one, too; those who have come are not in it yet */
    bool leaves;
    bool begun;  /* a group before this one */
    bool admits; /* since the last step some have come */
    uint32_t stalls;
};

/* What processes tell each other where a group begins, and after each step. */
struct word {
    uint64_t holds;
    uint64_t step;
    uint64_t due;
    uint64_t global_batch;
};

struct end_of_step {
    uint32_t leaves;
    uint32_t newcomers;
};

static tutti_ps deadline_of(const struct course *c)
{
    return c->real->run.perform.deadline_ps;
}

static int exchange(const struct course *c, const void *mine, size_t bytes, void *ret_all,
                    struct tutti_err *err)
{
    return tutti_group_exchange(c->real->with.group, mine, bytes, ret_all, deadline_of(c), err);
}

static int agree(const struct course *c, int status, struct tutti_err *err)
{
    return tutti_run_group_agree(&c->real->with, status, deadline_of(c), err);
}

/* ---- what there is to train ------------------------------------------------------------------ */

/* All that a process reads for itself once, and what the number of ranks changes in it. */
static int read_once(struct course *c, struct tutti_err *err)
{
    struct tutti_train_real *real = c->real;

    if (real->learner.size == 0)
        return tutti_train_real_read(c->args, real, err);
    real->data.rank_count = real->params.rank_count = real->run.rank_count;
    real->params.samples =
        (uint32_t)((real->data.global_batch + real->run.rank_count - 1) / real->run.rank_count);
    tutti_net_learner_regroup(&real->learner, real->run.rank_count);
    return 0;
}

static int check_strategy(const struct tutti_train_real *real, struct tutti_err *err)
{
    const struct tutti_strategy *s = &real->strategy;

    if (strcmp(s->name, "onedevice") != 0 && s->sharding == TUTTI_SHARD_NONE &&
        s->local_steps == 0 && s->compression == TUTTI_COMPRESS_NONE)
        return 0;
    return tutti_fail(
        err, TUTTI_EINVAL,
        "option '--elastic' and strategy '%s': where ranks divide what they learn, or "
        "differ, one that is lost takes its part along (mirrored, "
        "multiworkermirrored, ddp, without compression)",
        s->name);
}

/* ---- a group begins -------------------------------------------------------------------------- */

/* Who knows most; nobody: the count of all. */
static uint32_t first_of(const struct word *all, uint32_t count)
{
    uint32_t best = count;

    for (uint32_t i = 0; i < count; i++)
        if (all[i].holds != 0 && (best == count || all[i].step > all[best].step))
            best = i;
    return best;
}

static int new_members(struct course *c, uint64_t first_step, struct tutti_err *err)
{
    const struct tutti_train_members_params params = {.most = c->real->elastic.most,
                                                      .least = c->real->elastic.least,
                                                      .first = c->real->with.group->count,
                                                      .first_step = first_step,
                                                      .last_step = c->real->steps};

    if (!c->holds) { /* nothing has happened yet that counts */
        tutti_train_members_free(c->members);
        c->members = NULL;
    }
    return c->members != NULL ? 0 : tutti_train_members_new(&params, &c->members, err);
}

/* What the process that knows most has of the members becomes what all have; then what all of this
 * group know alike happens. */
static int take_members(struct course *c, const struct word *all, uint32_t best,
                        struct tutti_err *err)
{
    const struct tutti_group *group = c->real->with.group;
    const size_t count = tutti_train_members_image_count(c->members);
    uint64_t *mine = calloc(count, sizeof(mine[0]));
    uint64_t *images = calloc(count * group->count, sizeof(images[0]));
    bool due = false;
    int status = agree(c, mine == NULL || images == NULL ? tutti_nomem(err) : 0, err);

    if (status == 0) {
        tutti_train_members_image(c->members, mine);
        status = exchange(c, mine, count * sizeof(mine[0]), images, err);
    }
    if (status == 0)
        status = tutti_train_members_take_image(c->members, images + best * count, err);
    for (uint32_t i = 0; i < group->count; i++)
        due = due || (all[i].due != 0 && all[i].step == all[best].step);
    if (status == 0)
        status = tutti_train_members_join(c->members, group, err);
    if (status == 0 && due)
        tutti_train_members_done(c->members);
    if (status == 0)
        tutti_train_members_lose(c->members, group);
    free(images);
    free(mine);
    return status;
}

/* The kept state of the step at which all go on, if this process has it. */
static void *state_of(struct course *c)
{
    const uint64_t step = tutti_train_members_step(c->members);

    if (c->holds && c->step == step)
        return c->kept[c->current];
    if (c->holds && c->ahead && c->step + 1 == step)
        return c->kept[1 - c->current];
    return NULL;
}

/* What those lack who have come one of the others sends to all. */
static int take_state(struct course *c, struct tutti_err *err)
{
    struct tutti_train_real *real = c->real;
    const struct tutti_group *group = real->with.group;
    const void *state = state_of(c);
    uint32_t lacks = state == NULL;
    uint32_t *all = calloc(group->count, sizeof(all[0]));
    uint32_t source = 0;
    uint32_t lacking = 0;
    int status = all == NULL ? tutti_nomem(err) : 0;

    if (status == 0 && state != NULL)
        status = tutti_trainer_write_state(real->trainer, state, err);
    status = agree(c, status, err);
    if (status == 0)
        status = exchange(c, &lacks, sizeof(lacks), all, err);
    for (uint32_t i = 0; i < group->count && status == 0; i++)
        lacking += all[i];
    if (status == 0 && lacking > 0 &&
        (!tutti_train_members_source(c->members, group, &source) || all[source] != 0))
        status = tutti_fail(err, TUTTI_ECHECK, "nobody has what %u of %u processes lack", lacking,
                            group->count);
    if (status == 0 && lacking > 0)
        status = tutti_trainer_spread_state(real->trainer, source, err);
    free(all);
    return status;
}

/* Copies what training has come to. */
static int keep(struct course *c, uint32_t which, struct tutti_err *err)
{
    if (c->kept[which] == NULL)
        c->kept[which] = malloc(tutti_trainer_state_bytes(c->real->trainer));
    if (c->kept[which] == NULL)
        return tutti_nomem(err);
    return tutti_trainer_read_state(c->real->trainer, c->kept[which], err);
}

static int open_page(struct course *c, struct tutti_err *err)
{
    const bool prints = tutti_train_real_prints(c->real);
    int status =
        tutti_train_real_page_open(c->args, c->real, prints ? c->sink : NULL, &c->page, err);

    c->has_page = status == 0;
    return status;
}

static void say_who(const struct course *c)
{
    const struct tutti_group *group = c->real->with.group;
    const char *why = tutti_group_why(group);
    char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];

    if (!tutti_train_real_prints(c->real))
        return;
    if (group->incarnation == 1 && strcmp(c->real->with.join.launch.name, "tutti") == 0 &&
        getenv("TUTTI_SECRET") == NULL) /* the secret is drawn, and nobody else knows it */
        return;
    if (group->incarnation > 1)
        fprintf(c->sink->notes, "tutti train: %s; %u go on from step %" PRIu64 "\n",
                why[0] != '\0' ? why : "all are there", group->count, c->step);
    else
        fprintf(c->sink->notes, "tutti train: others may come: --join %s\n",
                tutti_group_tcp_address(group, address));
}

/* From the meeting of this group to its first step. */
static int begin(struct course *c, struct tutti_err *err)
{
    struct tutti_train_real *real = c->real;
    const uint32_t count = real->with.group->count;
    const uint64_t known = c->holds ? tutti_train_members_step(c->members) : 0;
    const struct word mine = {c->holds, known, c->due && known == c->step, real->data.global_batch};
    struct word *all = calloc(count, sizeof(all[0]));
    uint32_t best = count;
    int status = all == NULL ? tutti_nomem(err) : 0;

    if (c->begun) /* as those who have just come have agreed on what they have opened (real.c) */
        status = agree(c, status, err);
    c->begun = true;
    real->group_ranks = 1;
    if (status == 0)
        status = exchange(c, &mine, sizeof(mine), all, err);
    if (status == 0)
        best = first_of(all, count);
    if (status == 0) {
        real->global_batch = best < count ? all[best].global_batch : 0;
        status = read_once(c, err);
        if (status == 0)
            status = check_strategy(real, err);
        status = agree(c, status, err);
    }
    real->backend = real->params.backend = real->with.backend;
    real->params.unrestored = best < count;
    if (status == 0)
        status = tutti_train_real_same(real, err);
    if (status == 0)
        status = tutti_train_real_open_trainer(c->args, real, c->sink, err);
    if (status == 0)
        status = agree(c, new_members(c, tutti_trainer_steps(real->trainer), err), err);
    if (status == 0 && best < count)
        status = take_members(c, all, best, err);
    else if (status == 0)
        status = tutti_train_members_join(c->members, real->with.group, err);
    if (status == 0 && best < count)
        status = take_state(c, err);
    free(all);
    if (status == 0)
        status = keep(c, c->current, err);
    if (status == 0) {
        c->holds = true;
        c->ahead = c->due = false;
        c->step = tutti_train_members_step(c->members);
        say_who(c);
    }
    return status < 0 ? status : open_page(c, err);
}

/* ---- a group ends ---------------------------------------------------------------------------- */

static int close_page(struct course *c, struct tutti_err *err)
{
    int status = c->has_page ? tutti_train_real_page_done(&c->page, err) : 0;

    c->has_page = false;
    return status;
}

/* Nothing is played in it any more. */
static void rest(struct course *c)
{
    tutti_trainer_close(c->real->trainer);
    c->real->trainer = NULL;
    tutti_run_group_rest(&c->real->with);
}

/* Those who are left, after a loss or where some have left, make the next group. */
static int shrink(struct course *c, struct tutti_group **ret, struct tutti_err *err)
{
    rest(c);
    return tutti_group_shrink(c->real->with.group, c->real->elastic.least, deadline_of(c), ret,
                              err);
}

/* One that has come with other options ends, and the others go on without it. */
static bool is_loss(const struct course *c, int status)
{
    return status == -TUTTI_EIO || status == -TUTTI_ETIME ||
           (status == -TUTTI_EINVAL && c->admits && c->holds);
}

/* What has failed may be that another is lost: then those who are left begin again. It ends with
 * what ends it again and again, and loses nobody. */
static int lose(struct course *c, int status, struct tutti_err *err)
{
    while (is_loss(c, status)) {
        const uint32_t count = c->real->with.group != NULL ? c->real->with.group->count : 0;
        struct tutti_group *next = NULL;
        struct tutti_err closing;

        if (count < 2 || c->stalls == STALLS)
            return status;
        if (c->admits && status == -TUTTI_EINVAL && tutti_train_real_prints(c->real))
            fprintf(c->sink->notes, "tutti train: %s: it does not take part\n", err->text);
        (void)close_page(c, &closing);
        status = shrink(c, &next, err);
        if (status < 0)
            return status; /* too few are left */
        c->stalls = next->count < count ? 0 : c->stalls + 1;
        status = tutti_run_group_next(c->args, &c->real->run, &c->real->with, next, err);
        if (status == 0)
            status = begin(c, err);
    }
    return status;
}

/* All have done it: it counts. */
static void advance(struct course *c)
{
    assert(c->ahead);
    tutti_train_members_done(c->members);
    c->due = false;
    c->current = 1 - c->current;
    c->ahead = false;
    c->step = tutti_train_members_step(c->members);
    c->admits = false;
    c->stalls = 0;
}

/* Those who wait are let in, as many as there may be. */
static int admit(struct course *c, struct tutti_err *err)
{
    const uint32_t room = c->real->elastic.most - tutti_train_members_count(c->members);
    struct tutti_group *next = NULL;
    int status;

    assert(room > 0);
    status = tutti_group_admit(c->real->with.group, room, deadline_of(c), &next, err);
    if (status < 0)
        return status;
    if (next == NULL) { /* they have gone again */
        advance(c);
        return 0;
    }
    c->admits = true;
    status = close_page(c, err);
    rest(c);
    if (status == 0)
        status = tutti_run_group_next(c->args, &c->real->run, &c->real->with, next, err);
    else
        tutti_group_close(next);
    return status < 0 ? status : begin(c, err);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Some leave at this step's end; this one may be among them. */
static int part(struct course *c, const struct end_of_step *all, struct tutti_err *err)
{
    const struct tutti_group *group = c->real->with.group;
    struct tutti_group *next = NULL;
    struct tutti_err closing;
    int status;

    for (uint32_t i = 0; i < group->count; i++)
        if (all[i].leaves != 0)
            tutti_train_members_leave(c->members, tutti_group_id(group, i));
    advance(c);
    if (c->leaves) {
        fprintf(c->sink->notes, "tutti train: left after step %" PRIu64 ", as it was told to\n",
                c->step);
        c->sink->exit_code = (int)tutti_args_number(c->args, "stop-code");
        return close_page(c, err);
    }
    (void)close_page(c, &closing);
    status = shrink(c, &next, err);
    if (status == 0)
        status = tutti_run_group_next(c->args, &c->real->run, &c->real->with, next, err);
    return status < 0 ? status : begin(c, err);
}

/* After a step: whether all have done it, who leaves, and whether others wait. *ret_stops: too few
 * would be left, so all stop. */
static int meet(struct course *c, bool *ret_stops, struct tutti_err *err)
{
    struct tutti_group *group = c->real->with.group;
    const uint32_t count = group->count;
    const bool full = tutti_train_members_count(c->members) >= c->real->elastic.most;
    const struct end_of_step mine = {.leaves = c->leaves,
                                     .newcomers = full ? 0 : tutti_group_tcp_newcomers(group)};
    struct end_of_step *all = calloc(count, sizeof(all[0]));
    uint32_t leave = 0;
    int status = all == NULL ? tutti_nomem(err) : exchange(c, &mine, sizeof(mine), all, err);

    c->due = status == 0;
    for (uint32_t i = 0; i < count && status == 0; i++)
        leave += all[i].leaves;
    *ret_stops = leave > 0 && count - leave < c->real->elastic.least;
    if (status == 0 && c->step + 1 == c->real->steps)
        advance(c); /* nobody leaves, or comes, after the last */
    else if (status == 0 && leave > 0 && !*ret_stops)
        status = part(c, all, err);
    else if (status == 0 && all[0].newcomers > 0 && !*ret_stops)
        status = admit(c, err);
    else if (status == 0)
        advance(c);
    free(all);
    return status;
}

static int go(struct course *c, bool *ret_stopped, struct tutti_err *err)
{
    struct tutti_trained step;
    int status = 0;

    *ret_stopped = false;
    while (status == 0 && !*ret_stopped && c->step < c->real->steps) {
        c->leaves = c->leaves || tutti_train_real_is_told(c->real);
        status = tutti_train_real_step(c->real, &c->page, &step, err);
        if (status == 0)
            status = keep(c, 1 - c->current, err);
        c->ahead = status == 0;
        if (status == 0)
            status = meet(c, ret_stopped, err);
        if (status == 0 && c->leaves && c->sink->exit_code != 0)
            return 0;
        if (status < 0)
            status = lose(c, status, err);
    }
    return status;
}

int tutti_train_elastic(const struct tutti_args *args, struct tutti_train_real *real,
                        struct tutti_sink *sink, struct tutti_err *err)
{
    struct course c = {.args = args, .real = real, .sink = sink};
    struct tutti_err closing;
    bool stopped = false;
    int status = begin(&c, err);
    int closed;

    if (status < 0)
        status = lose(&c, status, err);
    if (status == 0)
        status = go(&c, &stopped, err);
    while (status == 0 && c.has_page) {
        status = tutti_train_real_end(args, real, &c.page, stopped, sink, err);
        if (status == 0 || stopped || !is_loss(&c, status))
            break;
        status = lose(&c, status, err); /* one is lost at the end: the others save */
    }
    closed = close_page(&c, &closing);
    if (status == 0 && closed < 0) {
        *err = closing;
        status = closed;
    }
    tutti_train_members_free(c.members);
    free(c.kept[0]);
    free(c.kept[1]);
    return status;
}
