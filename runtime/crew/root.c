/* Process 0's part of the keeper: who has come, whose parts have come, and who is missing. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/crew/keeper.h"

/* ---- names for messages ---- */

static bool has_not_come(const struct tutti_peer *peer)
{
    return !peer->here;
}

static bool has_not_given(const struct tutti_peer *peer)
{
    return peer->part == NULL;
}

static bool has_left(const struct tutti_peer *peer)
{
    return peer->left;
}

/* "process 3", "processes 1, 2 and 7", "processes 1, 2 and 90 others". */
static const char *names(const struct tutti_crew_tcp *crew,
                         bool (*are_meant)(const struct tutti_peer *), char *text, size_t bytes)
{
    enum { NAMED_MAX = 16 };
    uint32_t total = 0;
    uint32_t named = 0;
    size_t used;

    for (uint32_t i = 0; i < crew->base.count; i++)
        total += are_meant(&crew->peers[i]);
    used = (size_t)snprintf(text, bytes, total == 1 ? "process" : "processes");
    for (uint32_t i = 0; i < crew->base.count && named < total; i++) {
        const char *before = named == 0 ? " " : named + 1 == total ? " and " : ", ";

        if (!are_meant(&crew->peers[i]))
            continue;
        if (named == NAMED_MAX && total > NAMED_MAX + 1) {
            snprintf(text + used, bytes - used, " and %u others", total - named);
            break;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", before, i);
        assert(used < bytes);
        named++;
    }
    return text;
}

enum { NAMES_BYTES = 300 };

/* ---- the exchange ---- */

static void drop_parts(struct tutti_crew_tcp *crew)
{
    for (uint32_t i = 0; i < crew->base.count; i++) {
        tutti_parcel_drop(crew->peers[i].part);
        crew->peers[i].part = NULL;
    }
}

static size_t part_bytes(const struct tutti_peer *peer)
{
    return peer->part->bytes - peer->part_at;
}

static bool parts_fit(struct tutti_crew_tcp *crew)
{
    for (uint32_t i = 1; i < crew->base.count; i++) {
        if (part_bytes(&crew->peers[i]) == part_bytes(&crew->peers[0]))
            continue;
        tutti_keeper_end(crew, -TUTTI_EINVAL,
                         "process %u of %u exchanges %zu bytes, process 0 %zu: they do not run the "
                         "same",
                         i, crew->base.count, part_bytes(&crew->peers[i]),
                         part_bytes(&crew->peers[0]));
        return false;
    }
    return true;
}

/* All parts are there: put together, they go to everybody. */
static void share(struct tutti_crew_tcp *crew)
{
    size_t bytes = part_bytes(&crew->peers[0]);
    size_t all_bytes = bytes * crew->base.count;
    struct tutti_parcel *all = crew->room;

    if (!parts_fit(crew))
        return;
    assert(all != NULL);
    assert(all->bytes == TUTTI_FRAME_HEAD_BYTES + all_bytes);
    crew->room = NULL;
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE,
                                                 .bytes = (uint32_t)all_bytes,
                                                 .round = crew->round},
                           all->data);
    for (uint32_t i = 0; i < crew->base.count; i++)
        memcpy(all->data + TUTTI_FRAME_HEAD_BYTES + i * bytes,
               crew->peers[i].part->data + crew->peers[i].part_at, bytes);
    drop_parts(crew);
    crew->round++;
    for (uint32_t i = 1; i < crew->base.count; i++)
        if (crew->peers[i].fd >= 0)
            tutti_peer_tell(&crew->peers[i], tutti_parcel_hold(all));
    pthread_mutex_lock(&crew->board.lock);
    assert(crew->board.all == NULL);
    crew->board.all = all;
    crew->board.all_at = TUTTI_FRAME_HEAD_BYTES;
    pthread_cond_broadcast(&crew->board.changed);
    pthread_mutex_unlock(&crew->board.lock);
}

void tutti_root_take_part(struct tutti_crew_tcp *crew, uint32_t index, struct tutti_parcel *part,
                          size_t at, uint64_t wait_ms)
{
    struct tutti_peer *peer = &crew->peers[index];
    uint64_t most_ms = INT64_MAX / TUTTI_PS_PER_MS;

    /* Who sends its next part has read all that was sent to it, but for a sign of life. */
    if (peer->part != NULL || peer->out_count > 1 || crew->here_count < crew->base.count) {
        tutti_keeper_end(crew, -TUTTI_EIO, "process %u of %u exchanges out of turn", index,
                         crew->base.count);
        tutti_parcel_drop(part);
        return;
    }
    peer->part = part;
    peer->part_at = at;
    peer->part_wait_ms = wait_ms < most_ms ? wait_ms : most_ms;
    peer->part_due_ps = tutti_crew_after(tutti_board_now(&crew->board),
                                         (tutti_ps)peer->part_wait_ms * TUTTI_PS_PER_MS);
    for (uint32_t i = 0; i < crew->base.count; i++)
        if (crew->peers[i].part == NULL) {
            tutti_root_missed(crew);
            return;
        }
    share(crew);
}

void tutti_root_missed(struct tutti_crew_tcp *crew)
{
    char text[NAMES_BYTES];
    bool needed = crew->here_count < crew->base.count;
    bool some = false;

    for (uint32_t i = 0; i < crew->base.count; i++) {
        needed = needed || crew->peers[i].part != NULL;
        some = some || crew->peers[i].left;
    }
    if (needed && some)
        tutti_keeper_end(crew, -TUTTI_EIO, "%s of %u left before the others had done",
                         names(crew, has_left, text, sizeof(text)), crew->base.count);
}

/* ---- clocks ---- */

static bool gathering(const struct tutti_crew_tcp *crew)
{
    return crew->here_count < crew->base.count;
}

tutti_ps tutti_root_due(const struct tutti_crew_tcp *crew)
{
    tutti_ps due = gathering(crew) ? crew->open_due_ps : INT64_MAX;

    if (crew->told)
        return INT64_MAX;
    for (uint32_t i = 0; i < crew->base.count; i++)
        if (crew->peers[i].part != NULL && crew->peers[i].part_due_ps < due)
            due = crew->peers[i].part_due_ps;
    return due;
}

static void end_gathering(struct tutti_crew_tcp *crew)
{
    char text[NAMES_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    char refused[sizeof(crew->last_refused) + 64] = "";

    (void)names(crew, has_not_come, text, sizeof(text));
    (void)tutti_print_time(crew->deadline_ps, time);
    if (crew->refused_count > 0)
        snprintf(refused, sizeof(refused), " (%llu refused, last %s)",
                 (unsigned long long)crew->refused_count, crew->last_refused);
    tutti_keeper_end(crew, -TUTTI_ETIME, "%s of %u %s not come within %s%s", text, crew->base.count,
                     crew->base.count - crew->here_count == 1 ? "has" : "have", time, refused);
}

bool tutti_root_expects(const struct tutti_crew_tcp *crew, tutti_ps now_ps)
{
    if (crew->base.index != 0 || !gathering(crew) || now_ps >= crew->open_due_ps)
        return false;
    for (uint32_t i = 1; i < crew->base.count; i++)
        if (!crew->peers[i].here && !crew->peers[i].turned_away)
            return true;
    return false;
}

void tutti_root_look_at_clock(struct tutti_crew_tcp *crew, tutti_ps now_ps)
{
    char text[NAMES_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    uint32_t missing = 0;

    if (crew->told)
        return;
    if (gathering(crew) && now_ps >= crew->open_due_ps) {
        end_gathering(crew);
        return;
    }
    for (uint32_t i = 0; i < crew->base.count; i++)
        missing += crew->peers[i].part == NULL;
    for (uint32_t i = 0; i < crew->base.count; i++) {
        const struct tutti_peer *peer = &crew->peers[i];

        if (peer->part == NULL || now_ps < peer->part_due_ps)
            continue;
        (void)tutti_print_time((tutti_ps)peer->part_wait_ms * TUTTI_PS_PER_MS, time);
        tutti_keeper_end(crew, -TUTTI_ETIME,
                         "%s of %u %s not come within %s, for which process %u "
                         "waited",
                         names(crew, has_not_given, text, sizeof(text)), crew->base.count,
                         missing == 1 ? "has" : "have", time, i);
        return;
    }
}

/* ---- the door of the rendezvous ---- */

/* All are there: everybody learns where everybody takes data connections. */
static void complete(struct tutti_crew_tcp *crew)
{
    uint32_t count = crew->base.count;
    size_t bytes = (size_t)count * TUTTI_FRAME_SEAT_BYTES;
    struct tutti_parcel *seats = tutti_parcel_new(TUTTI_FRAME_HEAD_BYTES + bytes);

    if (seats == NULL) {
        tutti_keeper_end(crew, -TUTTI_ENOMEM, "out of memory");
        return;
    }
    tutti_frame_write_head(
        &(struct tutti_frame){.type = TUTTI_FRAME_SEATS, .bytes = (uint32_t)bytes}, seats->data);
    for (uint32_t i = 0; i < count; i++) {
        crew->seats[i] = crew->peers[i].seat;
        tutti_frame_write_seat(&crew->seats[i], seats->data + TUTTI_FRAME_HEAD_BYTES +
                                                    (size_t)i * TUTTI_FRAME_SEAT_BYTES);
    }
    for (uint32_t i = 1; i < count; i++)
        if (crew->peers[i].fd >= 0)
            tutti_peer_tell(&crew->peers[i], tutti_parcel_hold(seats));
    tutti_parcel_drop(seats);
    pthread_mutex_lock(&crew->board.lock);
    crew->board.complete = true;
    pthread_cond_broadcast(&crew->board.changed);
    pthread_mutex_unlock(&crew->board.lock);
}

static void write_note(const char *text, char ret_note[TUTTI_GREET_NOTE_BYTES])
{
    size_t bytes = strnlen(text, TUTTI_GREET_NOTE_BYTES);

    memcpy(ret_note, text, bytes);
    if (bytes < TUTTI_GREET_NOTE_BYTES)
        ret_note[bytes] = 0;
    else
        memcpy(ret_note + TUTTI_GREET_NOTE_BYTES - 4, "...", 4);
}

/* What is wrong with one who knows the secret; the note and the value go to it, `why` is logged. */
static enum tutti_greet_reason object(struct tutti_crew_tcp *crew, const struct tutti_hello *hello,
                                      char ret_note[TUTTI_GREET_NOTE_BYTES], char *why)
{
    uint32_t count = crew->base.count;

    ret_note[0] = 0;
    if (hello->kind != TUTTI_GREET_JOIN) {
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "it wants no seat in the crew");
        return TUTTI_GREET_OTHER_KIND;
    }
    if (hello->count != count) {
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "it counts %u processes, process 0 counts %u",
                 hello->count, count);
        return TUTTI_GREET_OTHER_COUNT;
    }
    if (hello->index == 0 || hello->index >= count || hello->port == 0 ||
        hello->port > UINT16_MAX) {
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "there is no such process (1 to %u)", count - 1);
        return TUTTI_GREET_NO_SUCH_INDEX;
    }
    if (crew->peers[hello->index].here) {
        const char *from = crew->peers[hello->index].address;

        write_note(from, ret_note);
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "process %u has already come, from '%s'", hello->index,
                 from);
        return TUTTI_GREET_TWICE;
    }
    if (crew->told) {
        struct tutti_err end = {""};

        (void)tutti_board_told(&crew->board, 0, count, &end);
        write_note(end.text, ret_note);
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "the crew has broken off");
        return TUTTI_GREET_BROKEN_OFF;
    }
    return TUTTI_GREET_WELCOME;
}

/* Where the others will find one whose hello is good. */
static void seat(struct tutti_crew_tcp *crew, const struct tutti_guest *guest)
{
    static const uint8_t as_seen[16] = {0};
    const struct tutti_hello *hello = &guest->greet.said;
    struct tutti_seat *to = &crew->peers[hello->index].seat;

    to->port = hello->port;
    memcpy(to->address, hello->address, sizeof(to->address));
    to->like_root = false;
    if (memcmp(hello->address, as_seen, sizeof(as_seen)) == 0) {
        tutti_address_pack(&guest->from, to->address);
        to->like_root = tutti_address_is_loopback(&guest->from);
    }
}

static uint32_t wait_ms(const struct tutti_crew_tcp *crew)
{
    tutti_ps left_ps = crew->open_due_ps - tutti_board_now(&crew->board);

    if (left_ps <= 0)
        return 1;
    left_ps /= TUTTI_PS_PER_MS;
    return left_ps > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ps;
}

static bool proved(void *data, struct tutti_guest *guest)
{
    struct tutti_crew_tcp *crew = data;
    const struct tutti_hello *hello = &guest->greet.said;
    struct tutti_peer *peer;
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    char who[TUTTI_ADDRESS_TEXT_BYTES + 64];
    char why[TUTTI_GUEST_WHY_BYTES];
    char note[TUTTI_GREET_NOTE_BYTES];
    enum tutti_greet_reason reason = object(crew, hello, note, why);

    if (reason != TUTTI_GREET_WELCOME) {
        snprintf(who, sizeof(who), "process %u of %u at '%s'", hello->index, hello->count,
                 tutti_address_text(&guest->from, text));
        tutti_keeper_refused(crew, who, why);
        tutti_greet_refuse(&guest->greet, reason, crew->base.count, note);
        if (reason == TUTTI_GREET_BROKEN_OFF)
            crew->peers[hello->index].turned_away = true;
        return false;
    }
    tutti_greet_welcome(&guest->greet, wait_ms(crew), crew->session);
    /* It fits into the socket's empty buffer, or the guest has gone: then it is as if it had never
     * come, for a welcome that nobody read has no consequences. */
    if (tutti_greet_talk(&guest->greet, guest->fd) != 1)
        return false;
    peer = &crew->peers[hello->index];
    tutti_socket_tune(guest->fd, (uint32_t)(crew->stall_ps / TUTTI_PS_PER_MS), false);
    tutti_peer_open(peer, guest->fd, tutti_board_now(&crew->board));
    seat(crew, guest);
    if (++crew->here_count == crew->base.count)
        complete(crew);
    return true;
}

static void refused(void *data, const struct tutti_guest *guest, const char *why)
{
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    tutti_keeper_refused(data, tutti_address_text(&guest->from, text), why);
}

const struct tutti_door_ops tutti_root_door_ops = {.proved = proved, .refused = refused};
