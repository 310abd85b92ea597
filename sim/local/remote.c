/* Messages between processes: copied to the system piece by piece by who sends, and out of it by
 * who receives; see stage.h. */
#include <assert.h>
#include <string.h>

#include "runtime/backend.h"
#include "sim/local/stage.h"

enum {
    TAKE_BYTES = 512 << 10,   /* received before it is reduced */
    DIRECT_BYTES = 256 << 10, /* likewise, where it is read from the sender's memory */
    WINDOW_BYTES = 4 << 20,   /* what the system holds for one connection, about */
    /* Messages of which the system holds no copy, but the pages they lie in. */
    LEND_BYTES = 128 << 10,
    LEND_CROWDED_BYTES = 512 << 10, /* with more ranks than processors */
    LEND_AT_ONCE_BYTES = 1 << 20,   /* handed over in one call */
    /* Of tcp's copies: what fits a packet of loopback, which is 64 KiB with the system's heads and
     * ours. So a message of 64 KiB is two. */
    PACKET_BYTES = (64 << 10) - 128,
};

static bool is_lent(const struct local_wire *wire, uint64_t bytes)
{
    return !wire->direct && bytes >= wire->lend_min;
}

uint64_t tutti_local_remote_lend_min(const struct tutti_local_play *play)
{
    const struct tutti_backend_kind *kind = tutti_backend_kind_find(play->local->backend);

    if (kind == NULL || !kind->lends)
        return UINT64_MAX;
    return play->schedule->rank_count > play->processor_count ? LEND_CROWDED_BYTES : LEND_BYTES;
}

struct local_wire *tutti_local_remote_of(const struct tutti_local_play *play, uint32_t rank,
                                         const struct local_place *place)
{
    const struct tutti_step *step = place->post.step;
    struct local_wire *wire = NULL;

    if (step->kind == TUTTI_RECV && (step->flags & TUTTI_STEP_FUSE) == 0)
        wire = tutti_local_wire_of(&play->messages, step->peer, rank, place->post.lane);
    else if (step->kind == TUTTI_REDUCE && place->seen != NULL)
        wire = tutti_local_wire_of(&play->messages, place->from, rank, place->post.lane);
    return wire != NULL && wire->remote ? wire : NULL;
}

double tutti_local_remote_when(const struct local_wire *wire)
{
    if (wire->direct)
        return wire->taken_count < wire->sent_count ? wire->messages[wire->taken_count].seen_ps
                                                    : LOCAL_NEVER_PS;
    return wire->piece_count > 0 ? wire->pieces[wire->piece_first].seen_ps : LOCAL_NEVER_PS;
}

double tutti_local_remote_ends(const struct tutti_local_play *play, const struct local_wire *wire)
{
    if (wire->ended_count == wire->gone_count)
        return LOCAL_NEVER_PS;
    if (!is_lent(wire, wire->messages[wire->ended_count].bytes))
        return 0;
    return wire->ended_count < wire->taken_count
               ? wire->released_ps[wire->ended_count % play->schedule->slot_count]
               : LOCAL_NEVER_PS;
}

static double per_byte_ps(const struct tutti_local_play *play, enum tutti_local_parameter rate)
{
    return 1000 / play->local->values[rate].value;
}

static double call_ps(const struct tutti_local_play *play)
{
    return play->local->values[TUTTI_LOCAL_CALL].value * (double)TUTTI_PS_PER_US;
}

/* What the system takes for a piece that it copies: less while all that is under way stays in a
 * cache. */
static double copying_ps(const struct tutti_local_play *play, const struct local_wire *wire,
                         uint64_t bytes, enum tutti_local_parameter near,
                         enum tutti_local_parameter far)
{
    double kept = tutti_local_kept(wire->posted_bytes - wire->taken_bytes,
                                   play->local->values[TUTTI_LOCAL_NEAR].value * 1024);

    return (double)bytes * (kept * per_byte_ps(play, near) + (1 - kept) * per_byte_ps(play, far)) +
           call_ps(play);
}

/* Pages are handed over many at a time, and received as they come. */
static bool begins_call(const struct local_wire *wire)
{
    return wire->gone_bytes % LEND_AT_ONCE_BYTES == 0;
}

bool tutti_local_remote_goes_on(const struct local_wire *wire)
{
    return wire->remote && wire->gone_count < wire->sent_count &&
           is_lent(wire, wire->messages[wire->gone_count].bytes) && !begins_call(wire) &&
           tutti_local_remote_wants(wire);
}

struct local_pass tutti_local_remote_take(struct tutti_local_play *play, uint32_t rank,
                                          struct local_place *place, struct local_wire *wire)
{
    const struct tutti_step *step = place->post.step;
    struct local_pass pass = tutti_local_begin_pass(play, rank, TUTTI_LOCAL_REDUCE_PAST);
    bool lent = is_lent(wire, step->bytes);
    uint64_t at = place->got_bytes;
    uint64_t bytes = 0;

    if (wire->direct)
        bytes = step->bytes - at < DIRECT_BYTES ? step->bytes - at : DIRECT_BYTES;
    for (uint32_t i = 0; !wire->direct && i < wire->piece_count && bytes < TAKE_BYTES; i++) {
        const struct local_piece *piece = &wire->pieces[(wire->piece_first + i) % LOCAL_PIECES];

        if (piece->seen_ps > play->now_ps || at + bytes + piece->bytes > step->bytes)
            break;
        bytes += piece->bytes;
    }
    place->piece_bytes = bytes;
    if (lent)
        pass.alone_ps += (double)bytes * per_byte_ps(play, TUTTI_LOCAL_TAKE_LENT) + call_ps(play);
    else
        pass.alone_ps += copying_ps(play, wire, bytes, TUTTI_LOCAL_TAKE_NEAR, TUTTI_LOCAL_TAKE_FAR);
    if (wire->direct || lent) {
        const struct local_message *message = &wire->messages[wire->taken_count];
        uint32_t from = step->kind == TUTTI_REDUCE ? place->from : step->peer;

        pass.far = lent ? TUTTI_LOCAL_TAKE_MEMORY : TUTTI_LOCAL_READ_MEMORY;
        tutti_local_touch(&play->memory, &pass, from, message->src_buf, message->src_offset + at,
                          bytes, LOCAL_READ);
        pass.far = TUTTI_LOCAL_READ_MEMORY;
    }
    if (step->kind == TUTTI_REDUCE)
        tutti_local_touch(&play->memory, &pass, rank, step->acc_buf, step->acc_offset + at, bytes,
                          LOCAL_READ);
    tutti_local_touch(&play->memory, &pass, rank, step->dst_buf, step->dst_offset + at, bytes,
                      step->kind == TUTTI_REDUCE ? tutti_local_store_of(play, step->bytes)
                                                 : LOCAL_WRITE);
    return pass;
}

bool tutti_local_remote_took(struct local_place *place, struct local_wire *wire)
{
    uint64_t left = place->piece_bytes;
    bool complete = place->got_bytes + left == place->post.step->bytes;

    place->got_bytes += left;
    if (wire->direct) {
        wire->taken_bytes += left;
        wire->gone_count += complete;
        return complete;
    }
    do { /* an empty message is a piece, too */
        const struct local_piece *piece = &wire->pieces[wire->piece_first];

        assert(wire->piece_count > 0);
        assert(piece->bytes <= left);
        left -= piece->bytes;
        wire->taken_bytes += piece->bytes;
        wire->piece_first = (wire->piece_first + 1) % LOCAL_PIECES;
        wire->piece_count--;
    } while (left > 0);
    return complete;
}

bool tutti_local_remote_wants(const struct local_wire *wire)
{
    return wire->remote && !wire->direct && wire->gone_count < wire->sent_count &&
           wire->piece_count < LOCAL_PIECES &&
           (wire->piece_count == 0 || wire->given_bytes - wire->taken_bytes < WINDOW_BYTES);
}

void tutti_local_remote_give(struct tutti_local_play *play, uint32_t rank, struct local_wire *wire)
{
    const struct local_message *message = &wire->messages[wire->gone_count];
    struct local_pass pass = tutti_local_begin_pass(play, rank, TUTTI_LOCAL_COPY_PAST);
    struct local_rank *r = &play->ranks[rank];
    uint64_t most = wire->lend_min == UINT64_MAX || is_lent(wire, message->bytes)
                        ? LOCAL_PIECE_BYTES
                        : PACKET_BYTES;

    r->sending = wire;
    r->piece_bytes = message->bytes - wire->gone_bytes;
    if (r->piece_bytes > most)
        r->piece_bytes = most;
    if (is_lent(wire, message->bytes)) {
        pass.alone_ps += (double)r->piece_bytes * per_byte_ps(play, TUTTI_LOCAL_LEND) +
                         (begins_call(wire) ? call_ps(play) : 0);
    } else {
        pass.alone_ps +=
            copying_ps(play, wire, r->piece_bytes, TUTTI_LOCAL_SEND_NEAR, TUTTI_LOCAL_SEND_FAR);
        tutti_local_touch(&play->memory, &pass, rank, message->src_buf,
                          message->src_offset + wire->gone_bytes, r->piece_bytes, LOCAL_READ);
    }
    tutti_local_work_begin(play, rank, &pass);
}

void tutti_local_remote_gave(struct tutti_local_play *play, uint32_t rank)
{
    struct local_rank *r = &play->ranks[rank];
    struct local_wire *wire = r->sending;

    wire->pieces[(wire->piece_first + wire->piece_count++) % LOCAL_PIECES] =
        (struct local_piece){.seen_ps = play->now_ps + play->hop_ps, .bytes = r->piece_bytes};
    wire->given_bytes += r->piece_bytes;
    wire->gone_bytes += r->piece_bytes;
    if (wire->gone_bytes == wire->messages[wire->gone_count].bytes) {
        wire->gone_count++;
        wire->gone_bytes = 0;
    }
    r->sending = NULL;
    r->ready_ps = play->now_ps;
}
