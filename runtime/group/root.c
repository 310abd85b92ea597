/* Process 0's part of the progress thread: who has come, whose parts have come, and who is missing.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/group/progress.h"

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
static const char *names(const struct tutti_group_tcp *group,
                         bool (*are_meant)(const struct tutti_peer *), char *text, size_t bytes)
{
    enum { NAMED_MAX = 16 };
    uint32_t total = 0;
    uint32_t named = 0;
    size_t used;

    for (uint32_t i = 0; i < group->base.count; i++)
        total += are_meant(&group->peers[i]);
    used = (size_t)snprintf(text, bytes, total == 1 ? "process" : "processes");
    for (uint32_t i = 0; i < group->base.count && named < total; i++) {
        const char *before = named == 0 ? " " : named + 1 == total ? " and " : ", ";

        if (!are_meant(&group->peers[i]))
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

static void drop_parts(struct tutti_group_tcp *group)
{
    for (uint32_t i = 0; i < group->base.count; i++) {
        tutti_packet_drop(group->peers[i].part);
        group->peers[i].part = NULL;
    }
}

static size_t part_bytes(const struct tutti_peer *peer)
{
    return peer->part->bytes - peer->part_at;
}

static bool parts_fit(struct tutti_group_tcp *group)
{
    for (uint32_t i = 1; i < group->base.count; i++) {
        if (part_bytes(&group->peers[i]) == part_bytes(&group->peers[0]))
            continue;
        tutti_progress_end(
            group, -TUTTI_EINVAL,
            "process %u of %u exchanges %zu bytes, process 0 %zu: they do not run the "
            "same",
            i, group->base.count, part_bytes(&group->peers[i]), part_bytes(&group->peers[0]));
        return false;
    }
    return true;
}

/* All parts are there: put together, they go to everybody. */
static void share(struct tutti_group_tcp *group)
{
    size_t bytes = part_bytes(&group->peers[0]);
    size_t all_bytes = bytes * group->base.count;
    struct tutti_packet *all = group->room;

    if (!parts_fit(group))
        return;
    assert(all != NULL);
    assert(all->bytes == TUTTI_FRAME_HEAD_BYTES + all_bytes);
    group->room = NULL;
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE,
                                                 .bytes = (uint32_t)all_bytes,
                                                 .incarnation = group->view.incarnation,
                                                 .round = group->round},
                           all->data);
    for (uint32_t i = 0; i < group->base.count; i++)
        memcpy(all->data + TUTTI_FRAME_HEAD_BYTES + i * bytes,
               group->peers[i].part->data + group->peers[i].part_at, bytes);
    drop_parts(group);
    group->round++;
    for (uint32_t i = 1; i < group->base.count; i++)
        if (group->peers[i].fd >= 0)
            tutti_peer_tell(&group->peers[i], tutti_packet_hold(all));
    pthread_mutex_lock(&group->mailbox.lock);
    assert(group->mailbox.all == NULL);
    group->held = group->mailbox.hold;
    group->mailbox.all = all;
    group->mailbox.all_at = TUTTI_FRAME_HEAD_BYTES;
    pthread_cond_broadcast(&group->mailbox.changed);
    pthread_mutex_unlock(&group->mailbox.lock);
}

void tutti_root_take_part(struct tutti_group_tcp *group, uint32_t index, struct tutti_packet *part,
                          size_t at, uint32_t wait_ms)
{
    struct tutti_peer *peer = &group->peers[index];

    /* Who sends its next part has read all that was sent to it, but for a sign of life. */
    if (peer->part != NULL || peer->out_count > 1 || group->here_count < group->base.count) {
        tutti_progress_end(group, -TUTTI_EIO, "process %u of %u exchanges out of turn", index,
                           group->base.count);
        tutti_packet_drop(part);
        return;
    }
    peer->part = part;
    peer->part_at = at;
    peer->part_wait_ms = wait_ms;
    peer->part_due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox),
                                          (tutti_ps)peer->part_wait_ms * TUTTI_PS_PER_MS);
    for (uint32_t i = 0; i < group->base.count; i++)
        if (group->peers[i].part == NULL) {
            tutti_root_missed(group);
            return;
        }
    share(group);
}

void tutti_root_missed(struct tutti_group_tcp *group)
{
    char text[NAMES_BYTES];
    bool needed = group->here_count < group->base.count;
    bool some = false;

    for (uint32_t i = 0; i < group->base.count; i++) {
        needed = needed || group->peers[i].part != NULL;
        some = some || group->peers[i].left;
    }
    if (needed && some)
        tutti_progress_end(group, -TUTTI_EIO, "%s of %u left before the others had done",
                           names(group, has_left, text, sizeof(text)), group->base.count);
}

/* ---- clocks ---- */

static bool gathering(const struct tutti_group_tcp *group)
{
    return group->here_count < group->base.count;
}

tutti_ps tutti_root_due(const struct tutti_group_tcp *group)
{
    tutti_ps due = gathering(group) ? group->open_due_ps : INT64_MAX;

    if (group->told)
        return INT64_MAX;
    for (uint32_t i = 0; i < group->base.count; i++)
        if (group->peers[i].part != NULL && group->peers[i].part_due_ps < due)
            due = group->peers[i].part_due_ps;
    return due;
}

static void end_gathering(struct tutti_group_tcp *group)
{
    char text[NAMES_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    char refused[sizeof(group->last_refused) + 64] = "";

    (void)names(group, has_not_come, text, sizeof(text));
    (void)tutti_print_time(group->deadline_ps, time);
    if (group->refused_count > 0)
        snprintf(refused, sizeof(refused), " (%llu refused, last %s)",
                 (unsigned long long)group->refused_count, group->last_refused);
    tutti_progress_end(group, -TUTTI_ETIME, "%s of %u %s not come within %s%s", text,
                       group->base.count,
                       group->base.count - group->here_count == 1 ? "has" : "have", time, refused);
}

bool tutti_root_expects(const struct tutti_group_tcp *group, tutti_ps now_ps)
{
    if (group->base.index != 0 || !gathering(group) || now_ps >= group->open_due_ps)
        return false;
    for (uint32_t i = 1; i < group->base.count; i++)
        if (!group->peers[i].here && !group->peers[i].turned_away)
            return true;
    return false;
}

void tutti_root_look_at_clock(struct tutti_group_tcp *group, tutti_ps now_ps)
{
    char text[NAMES_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    uint32_t missing = 0;

    if (group->told)
        return;
    if (gathering(group) && now_ps >= group->open_due_ps) {
        end_gathering(group);
        return;
    }
    for (uint32_t i = 0; i < group->base.count; i++)
        missing += group->peers[i].part == NULL;
    for (uint32_t i = 0; i < group->base.count; i++) {
        const struct tutti_peer *peer = &group->peers[i];

        if (peer->part == NULL || now_ps < peer->part_due_ps)
            continue;
        (void)tutti_print_time((tutti_ps)peer->part_wait_ms * TUTTI_PS_PER_MS, time);
        tutti_progress_end(group, -TUTTI_ETIME,
                           "%s of %u %s not come within %s, for which process %u "
                           "waited",
                           names(group, has_not_given, text, sizeof(text)), group->base.count,
                           missing == 1 ? "has" : "have", time, i);
        return;
    }
}

/* ---- the listener of the rendezvous ---- */

/* All are there: everybody learns where everybody takes connections. */
static void complete(struct tutti_group_tcp *group)
{
    uint32_t count = group->base.count;
    size_t bytes = tutti_view_bytes(count);
    struct tutti_packet *members = tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + bytes);

    if (members == NULL) {
        tutti_progress_end(group, -TUTTI_ENOMEM, "out of memory");
        return;
    }
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_MEMBERS,
                                                 .bytes = (uint32_t)bytes,
                                                 .incarnation = group->view.incarnation},
                           members->data);
    for (uint32_t i = 0; i < count; i++) {
        group->view.members[i] = group->peers[i].member;
        group->view.members[i].id = i;
    }
    tutti_view_write(&group->view, members->data + TUTTI_FRAME_HEAD_BYTES);
    for (uint32_t i = 1; i < count; i++)
        if (group->peers[i].fd >= 0)
            tutti_peer_tell(&group->peers[i], tutti_packet_hold(members));
    tutti_packet_drop(members);
    pthread_mutex_lock(&group->mailbox.lock);
    group->mailbox.complete = true;
    pthread_cond_broadcast(&group->mailbox.changed);
    pthread_mutex_unlock(&group->mailbox.lock);
}

static void write_note(const char *text, char ret_note[TUTTI_HANDSHAKE_NOTE_BYTES])
{
    size_t bytes = strnlen(text, TUTTI_HANDSHAKE_NOTE_BYTES);

    memcpy(ret_note, text, bytes);
    if (bytes < TUTTI_HANDSHAKE_NOTE_BYTES)
        ret_note[bytes] = 0;
    else
        memcpy(ret_note + TUTTI_HANDSHAKE_NOTE_BYTES - 4, "...", 4);
}

/* Why a client that has proved the secret is refused, if it is (else TUTTI_HANDSHAKE_WELCOME): the
 * note and the value are sent to it, `why` is logged. */
static enum tutti_handshake_reason object(struct tutti_group_tcp *group,
                                          const struct tutti_hello *hello,
                                          char ret_note[TUTTI_HANDSHAKE_NOTE_BYTES], char *why)
{
    uint32_t count = group->base.count;

    ret_note[0] = 0;
    if (hello->kind != TUTTI_HANDSHAKE_JOIN) {
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "it wants no member in the group");
        return TUTTI_HANDSHAKE_OTHER_KIND;
    }
    if (hello->count != count) {
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "it counts %u processes, process 0 counts %u",
                 hello->count, count);
        return TUTTI_HANDSHAKE_OTHER_COUNT;
    }
    if (hello->index == 0 || hello->index >= count || hello->port == 0 ||
        hello->port > UINT16_MAX) {
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "there is no such process (1 to %u)", count - 1);
        return TUTTI_HANDSHAKE_NO_SUCH_INDEX;
    }
    if (group->peers[hello->index].here) {
        const char *from = group->peers[hello->index].address;

        write_note(from, ret_note);
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "process %u has already come, from '%s'",
                 hello->index, from);
        return TUTTI_HANDSHAKE_TWICE;
    }
    if (group->told) {
        struct tutti_err end = {""};

        (void)tutti_mailbox_told(&group->mailbox, 0, count, &end);
        write_note(end.text, ret_note);
        snprintf(why, TUTTI_CLIENT_WHY_BYTES, "the group has broken off");
        return TUTTI_HANDSHAKE_BROKEN_OFF;
    }
    return TUTTI_HANDSHAKE_WELCOME;
}

/* Where the others will find one whose hello is good. */
static void member(struct tutti_group_tcp *group, const struct tutti_client *client)
{
    static const uint8_t as_seen[16] = {0};
    const struct tutti_hello *hello = &client->handshake.said;
    struct tutti_member *to = &group->peers[hello->index].member;

    to->port = hello->port;
    memcpy(to->address, hello->address, sizeof(to->address));
    if (memcmp(hello->address, as_seen, sizeof(as_seen)) == 0)
        tutti_address_pack(&client->from, to->address);
}

static uint32_t wait_ms(const struct tutti_group_tcp *group)
{
    tutti_ps left_ps = group->open_due_ps - tutti_mailbox_now(&group->mailbox);

    if (left_ps <= 0)
        return 1;
    left_ps /= TUTTI_PS_PER_MS;
    return left_ps > UINT32_MAX ? UINT32_MAX : (uint32_t)left_ps;
}

static bool proved(void *data, struct tutti_client *client)
{
    struct tutti_group_tcp *group = data;
    const struct tutti_hello *hello = &client->handshake.said;
    struct tutti_peer *peer;
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    char who[TUTTI_ADDRESS_TEXT_BYTES + 64];
    char why[TUTTI_CLIENT_WHY_BYTES];
    char note[TUTTI_HANDSHAKE_NOTE_BYTES];
    enum tutti_handshake_reason reason;

    if (hello->kind == TUTTI_HANDSHAKE_ENTER)
        return tutti_newcomers_proved(group, client);
    if (hello->kind == TUTTI_HANDSHAKE_CALL)
        return tutti_pair_proved(group, client);
    reason = object(group, hello, note, why);
    if (reason != TUTTI_HANDSHAKE_WELCOME) {
        snprintf(who, sizeof(who), "process %u of %u at '%s'", hello->index, hello->count,
                 tutti_address_text(&client->from, text));
        if (!group->again ||
            (reason != TUTTI_HANDSHAKE_TWICE && reason != TUTTI_HANDSHAKE_BROKEN_OFF))
            tutti_progress_refused(group, who, why);
        tutti_handshake_refuse(&client->handshake, reason, group->base.count, note);
        if (reason == TUTTI_HANDSHAKE_BROKEN_OFF)
            group->peers[hello->index].turned_away = true;
        return false;
    }
    tutti_handshake_welcome(&client->handshake, wait_ms(group), group->session);
    /* It fits into the socket's empty buffer, or the client has gone: then it is as if it had never
     * come, for a welcome that nobody read has no consequences. */
    if (tutti_handshake_talk(&client->handshake, client->fd) != 1)
        return false;
    peer = &group->peers[hello->index];
    tutti_socket_tune(client->fd, (uint32_t)(group->stall_ps / TUTTI_PS_PER_MS), false);
    tutti_peer_open(peer, client->fd, tutti_mailbox_now(&group->mailbox));
    member(group, client);
    if (++group->here_count == group->base.count)
        complete(group);
    return true;
}

static void refused(void *data, const struct tutti_client *client, const char *why)
{
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    tutti_progress_refused(data, tutti_address_text(&client->from, text), why);
}

const struct tutti_listener_ops tutti_root_listener_ops = {.proved = proved, .refused = refused};
