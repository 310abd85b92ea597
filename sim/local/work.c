/* What ranks do that takes time: passes over memory, and how they share it; see stage.h. */
#include <assert.h>

#include "sim/local/stage.h"

/* ---- passes ---------------------------------------------------------------------------------- */

struct local_pass tutti_local_begin_pass(struct tutti_local_play *play, uint32_t rank,
                                         enum tutti_local_parameter past)
{
    for (uint32_t i = 0; i < play->schedule->rank_count; i++)
        play->memory.saved_ps[i] = 0;
    play->memory.serial++;
    return (struct local_pass){.local = play->local,
                               .past = past,
                               .far = TUTTI_LOCAL_READ_MEMORY,
                               .rank = rank,
                               .processor = rank % play->processor_count,
                               .saved_ps = play->memory.saved_ps};
}

enum tutti_local_touch tutti_local_store_of(const struct tutti_local_play *play, uint64_t bytes)
{
    return bytes >= play->local->past_cache_bytes ? LOCAL_WRITE_PAST : LOCAL_WRITE;
}

static void copy_pass(struct tutti_local_play *play, struct local_pass *pass, uint32_t from,
                      unsigned src_buf, uint64_t src_offset, uint32_t to,
                      const struct tutti_step *step)
{
    tutti_local_touch(&play->memory, pass, from, src_buf, src_offset, step->bytes, LOCAL_READ);
    tutti_local_touch(&play->memory, pass, to, step->dst_buf, step->dst_offset, step->bytes,
                      tutti_local_store_of(play, step->bytes));
}

/* Marks the messages behind a REDUCE that it writes to where they are received, and writes them. */
static void land(struct tutti_local_play *play, struct local_pass *pass, uint32_t rank,
                 const struct tutti_post *post, enum tutti_local_touch how)
{
    const struct tutti_schedule *schedule = play->schedule;
    struct local_results *results =
        &play->messages.results[(uint64_t)rank * schedule->lane_count + post->lane];

    for (uint32_t to = 0; to < schedule->rank_count; to++) {
        struct local_wire *wire = tutti_local_wire_of(&play->messages, rank, to, post->lane);

        for (uint64_t k = wire->sent_count; k < wire->message_count; k++) {
            struct local_message *message = &wire->messages[k];

            if (message->step > post->index + results->results[results->next].send_count)
                break;
            if (!message->lands || wire->remote)
                continue;
            tutti_local_touch(&play->memory, pass, to, message->dst_buf, message->dst_offset,
                              post->step->bytes, how);
            if (how == LOCAL_WRITE)
                pass->alone_ps +=
                    (double)post->step->bytes * 1000 / play->local->values[TUTTI_LOCAL_PUSH].value;
        }
    }
}

static bool any_lands(const struct tutti_local_play *play, uint32_t rank,
                      const struct tutti_post *post, uint32_t send_count)
{
    bool any = false;

    for (uint32_t to = 0; send_count > 0 && to < play->schedule->rank_count; to++) {
        const struct local_wire *wire = tutti_local_wire_of(&play->messages, rank, to, post->lane);

        for (uint64_t k = wire->sent_count;
             k < wire->message_count && wire->messages[k].step <= post->index + send_count; k++)
            any = any || (wire->messages[k].lands && !wire->remote);
    }
    return any;
}

static struct local_pass reduce_pass(struct tutti_local_play *play, uint32_t rank,
                                     struct local_place *place)
{
    const struct tutti_step *step = place->post.step;
    struct local_results *results =
        &play->messages.results[(uint64_t)rank * play->schedule->lane_count + place->post.lane];
    struct local_pass pass = tutti_local_begin_pass(play, rank, TUTTI_LOCAL_REDUCE_PAST);
    enum tutti_local_touch how = tutti_local_store_of(play, step->bytes);
    uint32_t send_count;
    bool lands;

    assert(results->results[results->next].step == place->post.index);
    send_count = results->results[results->next].send_count;
    lands = any_lands(play, rank, &place->post, send_count);
    if (lands && play->schedule->out_bytes / 2 >= play->local->past_cache_bytes)
        how = LOCAL_WRITE_PAST;
    if (!place->put_off)
        tutti_local_touch(&play->memory, &pass, rank, step->acc_buf, step->acc_offset, step->bytes,
                          LOCAL_READ);
    if (place->seen != NULL)
        tutti_local_touch(&play->memory, &pass, place->from, place->seen->src_buf,
                          place->seen->src_offset, step->bytes, LOCAL_READ);
    else
        tutti_local_touch(&play->memory, &pass, rank, step->src_buf, step->src_offset, step->bytes,
                          LOCAL_READ);
    place->put_off = place->seen != NULL && (step->flags & TUTTI_STEP_LAST) == 0 && send_count == 0;
    if (!place->put_off)
        tutti_local_touch(&play->memory, &pass, rank, step->dst_buf, step->dst_offset, step->bytes,
                          how);
    if (lands)
        land(play, &pass, rank, &place->post, how);
    results->next++;
    return pass;
}

/* The pass of a step that may begin. */
static struct local_pass pass_of(struct tutti_local_play *play, uint32_t rank,
                                 struct local_place *place)
{
    const struct tutti_step *step = place->post.step;
    struct local_pass pass = tutti_local_begin_pass(play, rank, TUTTI_LOCAL_COPY_PAST);
    struct local_wire *remote = tutti_local_remote_of(play, rank, place);

    if (remote != NULL)
        return tutti_local_remote_take(play, rank, place, remote);
    if (step->kind == TUTTI_REDUCE)
        return reduce_pass(play, rank, place);
    if (step->kind == TUTTI_COPY) {
        copy_pass(play, &pass, rank, step->src_buf, step->src_offset, rank, step);
    } else if (step->kind == TUTTI_RECV && (step->flags & TUTTI_STEP_FUSE) == 0) {
        struct local_wire *wire =
            tutti_local_wire_of(&play->messages, step->peer, rank, place->post.lane);
        const struct local_message *message = &wire->messages[wire->taken_count];

        if (!message->lands)
            copy_pass(play, &pass, step->peer, message->src_buf, message->src_offset, rank, step);
    }
    return pass;
}

/* What this pass saves because others, still at it, have just fetched the same bytes, they save as
 * well: half of it each, as far as they have yet to go. */
static void share_savings(struct tutti_local_play *play, uint32_t rank, struct local_pass *pass)
{
    for (uint32_t i = 0; i < play->schedule->rank_count; i++) {
        struct local_rank *other = &play->ranks[i];
        double ps = play->memory.saved_ps[i] / 2;

        if (i == rank || ps <= 0 || !other->working || other->all_ps <= 0)
            continue;
        ps *= other->left_ps / other->all_ps;
        if (ps > other->left_ps / 2)
            ps = other->left_ps / 2;
        other->left_ps -= ps;
        pass->alone_ps += ps;
    }
}

void tutti_local_work_start(struct tutti_local_play *play, uint32_t rank, uint32_t at)
{
    struct local_rank *r = &play->ranks[rank];
    struct local_pass pass = pass_of(play, rank, local_place_of(play, rank, r->busy[at]));

    r->at = at;
    tutti_local_work_begin(play, rank, &pass);
}

void tutti_local_work_begin(struct tutti_local_play *play, uint32_t rank, struct local_pass *pass)
{
    struct local_rank *r = &play->ranks[rank];

    tutti_local_touch_end(&play->memory, pass);
    if (pass->alone_ps < pass->shared_ps)
        pass->alone_ps = pass->shared_ps;
    share_savings(play, rank, pass);
    play->memory.current[rank] = play->memory.serial;
    r->working = true;
    r->left_ps = pass->alone_ps;
    r->all_ps = pass->alone_ps;
    r->use = pass->alone_ps > 0 ? pass->shared_ps / pass->alone_ps : 0;
}

/* The share of the memory bandwidth of all ranks that one rank would use, 0 to 1, if no other
 * wanted any: less where it takes turns with others on its processor. Sets the rank's speed. */
static double wish_of(struct tutti_local_play *play, uint32_t rank)
{
    uint32_t rank_count = play->schedule->rank_count;
    struct local_rank *r = &play->ranks[rank];
    uint32_t turns = 0;

    for (uint32_t k = rank % play->processor_count; k < rank_count; k += play->processor_count)
        turns += play->ranks[k].working;
    r->speed = r->working ? 1.0 / turns : 0;
    return r->working ? r->use * r->speed : 0;
}

/* Threads of one core slow each other down, whatever they work at. */
static void slow_together(struct tutti_local_play *play)
{
    uint32_t rank_count = play->schedule->rank_count;
    uint64_t busy = 0; /* bit c: processor c works */

    for (uint32_t i = 0; i < rank_count; i++)
        busy |= (uint64_t)play->ranks[i].working << i % play->processor_count;
    for (uint32_t i = 0; i < rank_count && (busy & (busy - 1)) != 0; i++)
        play->ranks[i].speed *= play->local->values[TUTTI_LOCAL_TOGETHER].value;
}

void tutti_local_work_share(struct tutti_local_play *play)
{
    double wishes[TUTTI_LOCAL_RANKS_MAX];
    uint32_t rank_count = play->schedule->rank_count;
    uint32_t open = 0;
    double left = 1;
    double sum = 0;

    for (uint32_t i = 0; i < rank_count; i++) {
        wishes[i] = wish_of(play, i);
        sum += wishes[i];
        open += wishes[i] > 0;
    }
    for (bool more = sum > 1; more;) {
        double part = left / (open > 0 ? open : 1);

        more = false;
        for (uint32_t i = 0; i < rank_count; i++) {
            if (wishes[i] <= 0 || wishes[i] > part)
                continue;
            left -= wishes[i];
            wishes[i] = 0;
            open--;
            more = true;
        }
    }
    for (uint32_t i = 0; i < rank_count && sum > 1; i++) {
        if (wishes[i] > 0)
            play->ranks[i].speed *= left / open / wishes[i];
    }
    slow_together(play);
}
