/* Checkpoints of a trainer: what is saved of whom, when it is committed, and what is restored.
 * Ranks agree by what they report at each step anyway. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/status.h"
#include "runtime/train/checkpoint_saver.h"
#include "runtime/train/cut.h"
#include "runtime/train/flat.h"
#include "runtime/train/saved_model.h"
#include "runtime/train/trainer.h"

enum { SLOTS_MAX = 7, SCALARS_MAX = 8 };

struct tutti_saving {
    struct tutti_saved_model saved;
    struct tutti_checkpoint_slot slots[SLOTS_MAX];
    uint32_t slot_count;
    struct tutti_saver_piece *pieces;
    uint64_t incarnation;
    bool in_flight; /* begun, and not committed */
    uint64_t saved_step;
    double saved_s; /* when the last began */
};

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note(const struct tutti_trainer *t, const char *line)
{
    if (t->params.note != NULL)
        t->params.note(t->params.note_context, line);
}

/* ---- what there is to save ------------------------------------------------------------------- */

/* Floats that a replica keeps from step to step, in the order of slots: as long as its weights, or
 * of `elements` that all ranks have alike. */
struct array {
    const char *name;
    float *values;
    enum tutti_checkpoint_owner owner;
    uint64_t elements;
};

static uint32_t arrays_of(const struct tutti_replica *r, struct array ret[SLOTS_MAX])
{
    const struct array all[SLOTS_MAX] = {
        {"weights", r->state, TUTTI_OWNER_SHARED, 0},
        {"moment1", r->moments[0], TUTTI_OWNER_SHARED, 0},
        {"moment2", r->moments[1], TUTTI_OWNER_SHARED, 0},
        {"average", r->anchor, TUTTI_OWNER_SHARED, 0},
        {"outer-moment", r->outer_moment, TUTTI_OWNER_SHARED, 0},
        {"left-out", r->left_out, TUTTI_OWNER_RANK_SUM, 0},
        {"factors", r->factors, TUTTI_OWNER_SHARED, r->layout->plan.factor_elements},
    };
    uint32_t count = 0;

    for (uint32_t i = 0; i < SLOTS_MAX; i++)
        if (all[i].values != NULL)
            ret[count++] = all[i];
    return count;
}

static void name_slots(const struct tutti_trainer *t, struct tutti_saving *s)
{
    struct array arrays[SLOTS_MAX];

    s->slot_count = arrays_of(tutti_trainer_first(t), arrays);
    for (uint32_t i = 0; i < s->slot_count; i++)
        s->slots[i] = (struct tutti_checkpoint_slot){.name = arrays[i].name,
                                                     .dtype = TUTTI_FLOAT32,
                                                     .owner = arrays[i].owner,
                                                     .elements = arrays[i].elements};
}

static int describe_model(const struct tutti_trainer *t, struct tutti_saving *s,
                          struct tutti_err *err)
{
    const struct tutti_layout *l = &t->layout;
    int status = tutti_saved_model_make(t->params.model, &s->saved, err);
    uint32_t run_count = 0;

    for (uint32_t i = 0; i < t->own_count; i++) {
        const struct tutti_layout *own = tutti_trainer_layout(t, t->first_rank + i);

        run_count = own->run_count > run_count ? own->run_count : run_count;
    }
    s->pieces =
        calloc(SLOTS_MAX * ((size_t)l->plan.pack_count + run_count + 1), sizeof(s->pieces[0]));
    return status == 0 && s->pieces == NULL ? tutti_nomem(err) : status;
}

/* ---- who saves what -------------------------------------------------------------------------- */

/* What a stretch has of [first, end): 1 piece or none. */
static uint32_t cut_run(const struct tutti_flat_run *run, uint32_t slot, uint64_t first,
                        uint64_t end, float *values, struct tutti_saver_piece *ret)
{
    const uint64_t run_end = run->flat + run->count;

    first = first > run->flat ? first : run->flat;
    end = end < run_end ? end : run_end;
    if (first >= end)
        return 0;
    *ret = (struct tutti_saver_piece){slot, first, end - first,
                                      values + run->state + (first - run->flat)};
    return 1;
}

/* Of ranks that have parts of the model, one that has the first replica of its own. */
static uint32_t list_parts(const struct tutti_replica *r, struct tutti_saver_piece *ret)
{
    const struct tutti_layout *l = r->layout;
    struct array arrays[SLOTS_MAX];
    uint32_t slot_count = arrays_of(r, arrays);
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < slot_count; slot++)
        for (uint32_t i = 0; i < l->run_count && r->cut->data_rank == 0; i++)
            if (tutti_train_cut_owns(r->cut, &l->runs[i]))
                ret[count++] = (struct tutti_saver_piece){slot, l->runs[i].flat, l->runs[i].count,
                                                          arrays[slot].values + l->runs[i].state};
    return count;
}

/* Where all ranks have all of it each saves a part of equal length; else what it keeps, if it is of
 * the first group of those that share. What is each rank's own it saves all of. */
static uint32_t list_pieces(const struct tutti_trainer *t, const struct tutti_replica *r,
                            struct tutti_saver_piece *ret)
{
    const struct tutti_layout *l = &t->layout;
    const bool shares = l->plan.strategy->sharding != TUTTI_SHARD_NONE;
    struct array arrays[SLOTS_MAX];
    uint32_t slot_count = arrays_of(r, arrays);
    uint32_t count = 0;
    struct tutti_flat_piece piece;

    if (r->cut != NULL)
        return list_parts(r, ret);
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        const struct array *a = &arrays[slot];
        const bool own = a->owner != TUTTI_OWNER_SHARED;
        const uint64_t all = a->elements > 0 ? a->elements : l->plan.weights;
        const uint64_t first = own ? 0 : all * r->rank / t->params.rank_count;
        const uint64_t end = own ? all : all * (r->rank + UINT64_C(1)) / t->params.rank_count;

        if (a->elements > 0)
            ret[count++] = (struct tutti_saver_piece){slot, first, end - first, a->values + first};
        for (uint32_t i = 0; a->elements == 0 && !shares && i < l->run_count; i++)
            count += cut_run(&l->runs[i], slot, first, end, a->values, &ret[count]);
        for (uint32_t i = 0;
             shares && r->rank < l->plan.shard_ranks && tutti_flat_piece_at(l, r->rank, i, &piece);
             i++)
            if (piece.count > 0)
                ret[count++] = (struct tutti_saver_piece){slot, piece.flat, piece.count,
                                                          a->values + piece.state};
    }
    return count;
}

static uint32_t list_scalars(const struct tutti_trainer *t, const struct tutti_replica *r,
                             struct tutti_checkpoint_scalar ret[SCALARS_MAX])
{
    uint32_t n = 0;

    ret[n++] = (struct tutti_checkpoint_scalar){.name = "steps", .integer = r->step};
    ret[n++] = (struct tutti_checkpoint_scalar){.name = "updates", .integer = r->update_count};
    ret[n++] = (struct tutti_checkpoint_scalar){.name = "seed", .integer = t->params.seed};
    ret[n++] = (struct tutti_checkpoint_scalar){
        .name = "loss-scale", .is_real = true, .real = r->scale.scale};
    ret[n++] =
        (struct tutti_checkpoint_scalar){.name = "good-steps", .integer = r->scale.good_steps};
    return n;
}

/* ---- restoring ------------------------------------------------------------------------------- */

/* Whether what a checkpoint has under that name is what is kept here: not of another optimizer, nor
 * factors of another rank. */
static bool has_array(const struct tutti_checkpoint *c, const struct array *a)
{
    const struct tutti_checkpoint_slot *slot = tutti_checkpoint_slot(c, a->name);

    return slot != NULL && (a->elements == 0 || slot->elements == a->elements);
}

static int restore_replica(const struct tutti_trainer *t, struct tutti_checkpoint *c,
                           struct tutti_replica *r, struct tutti_err *err)
{
    struct array arrays[SLOTS_MAX];
    uint32_t slot_count = arrays_of(r, arrays);
    struct tutti_flat_piece piece;
    int status = 0;

    for (uint32_t slot = 0; slot < slot_count; slot++) {
        const struct array *a = &arrays[slot];
        struct tutti_checkpoint_want want = {.slot = a->name,
                                             .dtype = TUTTI_FLOAT32,
                                             .count = a->elements,
                                             .rank = r->rank,
                                             .rank_count = t->params.rank_count};

        if (!has_array(c, a)) /* begins anew */
            continue;
        if (a->elements > 0 && status == 0)
            status = tutti_checkpoint_read(c, &want, a->values, err);
        for (uint32_t i = 0;
             a->elements == 0 && status == 0 && tutti_flat_piece_at(r->layout, r->rank, i, &piece);
             i++) {
            want.first = piece.flat;
            want.count = piece.count;
            if (piece.count > 0)
                status = tutti_checkpoint_read(c, &want, a->values + piece.state, err);
        }
    }
    return status;
}

/* What becomes of what compression had left out. */
static void note_left_out(const struct tutti_trainer *t, const struct tutti_checkpoint *c)
{
    const struct tutti_checkpoint_slot *slot = tutti_checkpoint_slot(c, "left-out");
    char line[256];

    if (slot == NULL || t->params.restore_only)
        return;
    if (tutti_trainer_first(t)->left_out == NULL)
        note(t, "what compression had left out of gradients is dropped: nothing is compressed");
    else if (tutti_checkpoint_regroups(slot, tutti_checkpoint_rank_count(c), t->params.rank_count,
                                       line, sizeof(line)))
        note(t, line);
}

static uint64_t integer_of(const struct tutti_checkpoint *c, const char *name)
{
    const struct tutti_checkpoint_scalar *s = tutti_checkpoint_scalar(c, name);

    return s != NULL ? s->integer : 0;
}

static int restore(struct tutti_trainer *t, struct tutti_checkpoint *c, struct tutti_err *err)
{
    const struct tutti_checkpoint_scalar *scale = tutti_checkpoint_scalar(c, "loss-scale");
    char line[TUTTI_CHECKPOINT_PATH_BYTES + 128];
    int status = 0;

    for (uint32_t i = 0; i < t->own_count && status == 0; i++) {
        struct tutti_replica *r = t->replicas[t->first_rank + i];

        status = restore_replica(t, c, r, err);
        r->step = integer_of(c, "steps");
        r->update_count = integer_of(c, "updates");
        r->scale.good_steps = integer_of(c, "good-steps");
        if (scale != NULL && t->params.loss_scale.scale > 0)
            r->scale.scale = scale->real;
    }
    t->step_count = integer_of(c, "steps");
    (void)snprintf(line, sizeof(line), "restored step %" PRIu64 " from '%s', of %u rank%s by %s",
                   t->step_count, tutti_checkpoint_folder(c), tutti_checkpoint_rank_count(c),
                   tutti_checkpoint_rank_count(c) == 1 ? "" : "s", tutti_checkpoint_strategy(c));
    if (status == 0 && t->first_rank == 0) {
        note(t, line);
        note_left_out(t, c);
    }
    return status;
}

/* Told by whoever looks for the newest sound one. */
struct search {
    const struct tutti_trainer *trainer;
    bool has_damage;
};

static void note_damage(void *context, const char *line)
{
    struct search *search = context;
    char text[TUTTI_CHECKPOINT_PATH_BYTES + 256];

    search->has_damage = true;
    (void)snprintf(text, sizeof(text), "passed over: %s", line);
    note(search->trainer, text);
}

/* The process of rank 0 says which checkpoint, and which incarnation this is. sums: {whether there
 * is one, its incarnation, its step, the new incarnation, processes that failed} */
static int choose(struct tutti_trainer *t, double sums[TUTTI_TRAINER_SUMS], struct tutti_err *err)
{
    struct search search = {.trainer = t};
    const struct tutti_checkpoint_source source = {
        .model = &t->saving->saved.model, .verify = true, .note = note_damage, .context = &search};
    struct tutti_checkpoint *c = NULL;
    uint64_t incarnation = 0;
    int status = 0;

    if (t->first_rank == 0)
        status = tutti_checkpoint_next_incarnation(NULL, t->params.checkpoint, &incarnation, err);
    if (t->first_rank == 0 && status == 0 && !t->params.unrestored)
        status = tutti_checkpoint_open_newest(&source, t->params.checkpoint, &c, err);
    if (c != NULL) {
        sums[0] = 1;
        sums[1] = (double)tutti_checkpoint_id(c).incarnation;
        sums[2] = (double)tutti_checkpoint_id(c).step;
    }
    if (status == 0 && c == NULL && search.has_damage && !t->params.restore_only)
        note(t, "no checkpoint is whole: training begins anew");
    sums[3] = (double)incarnation;
    sums[4] = status < 0;
    tutti_checkpoint_close(c);
    return status;
}

static int open_chosen(struct tutti_trainer *t, const double sums[TUTTI_TRAINER_SUMS],
                       struct tutti_err *err)
{
    const struct tutti_checkpoint_source source = {.model = &t->saving->saved.model};
    const struct tutti_checkpoint_id id = {(uint64_t)sums[1], (uint64_t)sums[2]};
    char path[TUTTI_CHECKPOINT_PATH_BYTES];
    struct tutti_checkpoint *c = NULL;
    int status = tutti_checkpoint_path(t->params.checkpoint, id, path, err);

    if (status == 0)
        status = tutti_checkpoint_open(&source, path, &c, err);
    if (status == 0)
        status = restore(t, c, err);
    tutti_checkpoint_close(c);
    return status;
}

/* Agrees on a status: all go on, or none. */
static int agree(struct tutti_trainer *t, int status, struct tutti_err *err)
{
    double sums[TUTTI_TRAINER_SUMS] = {status < 0};
    struct tutti_err said;
    int agreed = tutti_trainer_add_up(t, sums, &said);

    if (status < 0)
        return status;
    if (agreed < 0) {
        *err = said;
        return agreed;
    }
    if (sums[0] > 0)
        return tutti_fail(err, TUTTI_EIO, "another process cannot read or write the checkpoint");
    return 0;
}

static int open_savers(struct tutti_trainer *t, struct tutti_err *err)
{
    struct tutti_saving *s = t->saving;
    int status = 0;

    for (uint32_t i = 0; i < t->own_count && status == 0; i++) {
        uint32_t rank = t->first_rank + i;
        const struct tutti_saver_options options = {.dir = t->params.checkpoint,
                                                    .incarnation = s->incarnation,
                                                    .rank = rank,
                                                    .rank_count = t->params.rank_count,
                                                    .is_chief = rank == 0,
                                                    .keep = t->params.keep,
                                                    .strategy = t->strategy.name,
                                                    .model = &s->saved.model,
                                                    .slots = s->slots,
                                                    .slot_count = s->slot_count};

        status = tutti_saver_open(&options, &t->replicas[rank]->saver, err);
    }
    return status;
}

int tutti_saving_open(struct tutti_trainer *t, struct tutti_err *err)
{
    double sums[TUTTI_TRAINER_SUMS] = {0};
    struct tutti_err said;
    int status;
    int agreed;

    if (t->params.checkpoint == NULL)
        return 0;
    t->saving = calloc(1, sizeof(*t->saving));
    status = t->saving == NULL ? tutti_nomem(err) : describe_model(t, t->saving, err);
    if (status < 0)
        return status;
    name_slots(t, t->saving);
    status = choose(t, sums, err);
    agreed = tutti_trainer_add_up(t, sums, &said);
    if (status == 0 && agreed < 0) {
        *err = said;
        status = agreed;
    }
    if (status == 0 && sums[4] > 0)
        status = tutti_fail(err, TUTTI_EIO, "process 0 cannot read the checkpoints in '%s'",
                            t->params.checkpoint);
    if (status == 0 && sums[0] == 0 && t->params.restore_only)
        status = tutti_fail(err, TUTTI_EINVAL, "no whole checkpoint in '%s'", t->params.checkpoint);
    if (status < 0)
        return status;
    t->saving->incarnation = (uint64_t)sums[3];
    status = agree(t, sums[0] > 0 ? open_chosen(t, sums, err) : 0, err);
    if (t->params.restore_only)
        return status;
    if (status == 0) /* the chief clears up before anybody saves */
        status = agree(t, t->first_rank == 0 ? open_savers(t, err) : 0, err);
    if (status == 0 && t->first_rank != 0)
        status = open_savers(t, err);
    t->saving->saved_step = t->step_count;
    t->saving->saved_s = now_s();
    return status;
}

int tutti_trainer_newest(const char *folder, struct tutti_trainer_saved *ret, struct tutti_err *err)
{
    struct tutti_checkpoint_id *ids = NULL;
    size_t count = 0;
    int status = tutti_checkpoint_list(NULL, folder, &ids, &count, err);

    if (status < 0)
        return status;
    *ret = (struct tutti_trainer_saved){.is_there = false};
    if (count > 0)
        *ret = (struct tutti_trainer_saved){true, ids[0].incarnation, ids[0].step};
    free(ids);
    return 0;
}

/* ---- saving ---------------------------------------------------------------------------------- */

void tutti_saving_ask(struct tutti_trainer *t)
{
    const struct tutti_trainer_params *p = &t->params;
    uint64_t next = t->step_count + tutti_trainer_stride(t);

    if (t->saving == NULL || p->restore_only)
        return;
    tutti_trainer_first(t)->wants_save =
        t->first_rank == 0 &&
        ((p->save_steps > 0 && next / p->save_steps > t->step_count / p->save_steps) ||
         (p->save_ps > 0 && (now_s() - t->saving->saved_s) * 1e12 >= (double)p->save_ps));
}

static int begin(struct tutti_trainer *t, struct tutti_err *err)
{
    struct tutti_saving *s = t->saving;
    int status = tutti_trainer_fetch(t, err);

    for (uint32_t i = 0; i < t->own_count && status == 0; i++) {
        const struct tutti_replica *r = t->replicas[t->first_rank + i];
        struct tutti_checkpoint_scalar scalars[SCALARS_MAX];
        uint32_t scalar_count = list_scalars(t, r, scalars);
        uint32_t piece_count = list_pieces(t, r, s->pieces);

        status = tutti_saver_begin(r->saver, t->step_count, s->pieces, piece_count, scalars,
                                   scalar_count, err);
    }
    s->in_flight = status == 0;
    s->saved_step = t->step_count;
    s->saved_s = now_s();
    return status;
}

static int commit(struct tutti_trainer *t, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < t->own_count && status == 0; i++)
        status = tutti_saver_commit(t->replicas[t->first_rank + i]->saver, err);
    t->saving->in_flight = false;
    return status;
}

/* Waits for the rank's own, then for all, and commits. */
static int finish(struct tutti_trainer *t, struct tutti_err *err)
{
    int status = 0;

    if (!t->saving->in_flight)
        return 0;
    for (uint32_t i = 0; i < t->own_count && status == 0; i++)
        status = tutti_saver_wait(t->replicas[t->first_rank + i]->saver, err);
    status = agree(t, status, err);
    return status < 0 ? status : commit(t, err);
}

int tutti_saving_step(struct tutti_trainer *t, const double *said, struct tutti_err *err)
{
    int status = 0;

    if (t->saving == NULL || t->params.restore_only)
        return 0;
    for (uint32_t i = 0; i < t->own_count; i++) {
        struct tutti_replica *r = t->replicas[t->first_rank + i];

        if (r->saver_status < 0) {
            *err = r->saver_err;
            return r->saver_status;
        }
    }
    if (t->saving->in_flight && said[TUTTI_REPORT_SAVED] >= t->params.rank_count)
        status = commit(t, err);
    if (status == 0 && said[TUTTI_REPORT_STOP] > 0)
        return tutti_trainer_save(t, err);
    if (status == 0 && said[TUTTI_REPORT_SAVE] > 0) {
        status = finish(t, err);
        if (status == 0)
            status = begin(t, err);
    }
    return status;
}

int tutti_trainer_save(struct tutti_trainer *t, struct tutti_err *err)
{
    int status;

    if (t->saving == NULL || t->params.restore_only)
        return 0;
    status = finish(t, err);
    if (status == 0 && t->saving->saved_step != t->step_count) {
        status = begin(t, err);
        if (status == 0)
            status = finish(t, err);
    }
    for (uint32_t i = 0; i < t->own_count && status == 0; i++)
        status = tutti_saver_wait(t->replicas[t->first_rank + i]->saver, err);
    return status;
}

void tutti_saving_close(struct tutti_trainer *t)
{
    struct tutti_saving *s = t->saving;
    struct tutti_err err;

    if (s == NULL)
        return;
    for (uint32_t i = 0; t->replicas != NULL && i < t->own_count; i++)
        if (t->replicas[t->first_rank + i] != NULL)
            (void)tutti_saver_close(t->replicas[t->first_rank + i]->saver, &err);
    tutti_saved_model_done(&s->saved);
    free(s->pieces);
    free(s);
    t->saving = NULL;
}
