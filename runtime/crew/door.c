/* The door: guests who have not proved anything yet. Each has a fixed room and a short time, and no
 * one of them can hold up another. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/crew/bytes.h"
#include "runtime/crew/talk.h"

static const tutti_ps GUEST_PS = 5 * TUTTI_PS_PER_S;    /* from the first byte to the proof */
static const tutti_ps LEAVE_PS = TUTTI_PS_PER_S;        /* to read why it was refused */
static const tutti_ps CROWD_PS = 250 * TUTTI_PS_PER_MS; /* when others want in, that is enough */
static const tutti_ps NO_SOCKET_PS = 100 * TUTTI_PS_PER_MS; /* until the next try to accept */

enum { ACCEPT_MAX = 64, DRAIN_BYTES_MAX = 1 << 16 };

static tutti_ps guest_due(const struct tutti_guest *guest)
{
    return guest->since_ps + (guest->leaving ? LEAVE_PS : GUEST_PS);
}

static void forget(struct tutti_door *door, uint32_t index)
{
    struct tutti_guest *to = &door->guests[index];
    const struct tutti_guest *last = &door->guests[door->guest_count - 1];

    assert(index < door->guest_count);
    if (to->fd >= 0)
        close(to->fd);
    door->guest_count--;
    if (index == door->guest_count)
        return;
    *to = *last;
    tutti_greet_moved(&to->greet, &last->greet);
}

static uint32_t oldest(const struct tutti_door *door)
{
    uint32_t found = 0;

    for (uint32_t i = 1; i < door->guest_count; i++)
        if (door->guests[i].since_ps < door->guests[found].since_ps)
            found = i;
    return found;
}

static void throw_out(struct tutti_door *door, uint32_t index, const char *why)
{
    if (!door->guests[index].leaving)
        door->ops->refused(door->data, &door->guests[index], why);
    forget(door, index);
}

/* What the refusal was about, for those who listen. */
static void explain(const struct tutti_greet *greet, char *why)
{
    switch ((enum tutti_greet_reason)greet->reason) {
    case TUTTI_GREET_OTHER_VERSION:
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "version %u of the protocol, not %d", greet->value,
                 TUTTI_GREET_VERSION);
        break;
    case TUTTI_GREET_NO_SECRET:
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "it has no secret");
        break;
    case TUTTI_GREET_UNWANTED_SECRET:
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "it has a secret, and this process none");
        break;
    case TUTTI_GREET_WRONG_SECRET:
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "it has the wrong secret");
        break;
    default:
        snprintf(why, TUTTI_GUEST_WHY_BYTES, "reason %u", greet->reason);
    }
}

static void see_off(struct tutti_door *door, struct tutti_guest *guest, tutti_ps now_ps)
{
    char why[TUTTI_GUEST_WHY_BYTES];

    /* Those who were refused after their proof have been named by who refused them. */
    if (guest->greet.reason <= TUTTI_GREET_WRONG_SECRET) {
        explain(&guest->greet, why);
        door->ops->refused(door->data, guest, why);
    }
    guest->leaving = true;
    guest->since_ps = now_ps;
    (void)shutdown(guest->fd, SHUT_WR);
}

static void stranger(struct tutti_door *door, uint32_t index)
{
    const uint8_t *said = door->guests[index].greet.hello;
    char why[TUTTI_GUEST_WHY_BYTES];
    char shown[9] = "";

    for (size_t i = 0; i < sizeof(shown) - 1; i++)
        shown[i] = said[i] >= 0x20 && said[i] < 0x7f && said[i] != '\'' ? (char)said[i] : '?';
    snprintf(why, sizeof(why), "not of this protocol (it began with '%s')", shown);
    throw_out(door, index, why);
}

/* True: it is read out, or has said too much. */
static bool drained(struct tutti_guest *guest)
{
    uint8_t rubbish[4096];
    ssize_t got = 1;

    while (got > 0 && guest->drained_bytes < DRAIN_BYTES_MAX) {
        got = recv(guest->fd, rubbish, sizeof(rubbish), MSG_DONTWAIT);
        if (got > 0)
            guest->drained_bytes += (size_t)got;
    }
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void ended(struct tutti_door *door, uint32_t index, int code)
{
    char why[TUTTI_GUEST_WHY_BYTES];

    snprintf(why, sizeof(why), "%s before it had proved anything",
             code != 0 ? strerror(code) : "it closed");
    throw_out(door, index, why);
}

static void move_guest(struct tutti_door *door, uint32_t index, tutti_ps now_ps)
{
    struct tutti_guest *guest = &door->guests[index];
    int talked;

    if (guest->leaving) {
        if (drained(guest))
            forget(door, index);
        return;
    }
    talked = tutti_greet_talk(&guest->greet, guest->fd);
    if (talked == 1 && guest->greet.state == TUTTI_GREET_PROVED) {
        if (door->ops->proved(door->data, guest)) {
            guest->fd = -1;
            forget(door, index);
            return;
        }
        talked = tutti_greet_talk(&guest->greet, guest->fd);
    }
    if (talked < 0)
        ended(door, index, errno);
    else if (talked == 1 && guest->greet.state == TUTTI_GREET_STRANGER)
        stranger(door, index);
    else if (talked == 1)
        see_off(door, guest, now_ps);
}

/* Makes room for one more; false: not now. */
static bool make_room(struct tutti_door *door, tutti_ps now_ps)
{
    uint32_t first = oldest(door);

    if (door->guest_count < TUTTI_GUEST_MAX)
        return true;
    if (now_ps < door->guests[first].since_ps + CROWD_PS) {
        door->shut_until_ps = door->guests[first].since_ps + CROWD_PS;
        return false;
    }
    throw_out(door, first, "it is slow, and others wait");
    return true;
}

static void no_socket(struct tutti_door *door, tutti_ps now_ps)
{
    if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM)
        return;
    if (door->guest_count > 0)
        throw_out(door, oldest(door), "this process has no more sockets");
    else
        door->shut_until_ps = now_ps + NO_SOCKET_PS;
}

static void let_in(struct tutti_door *door, tutti_ps now_ps)
{
    for (int i = 0; i < ACCEPT_MAX && make_room(door, now_ps); i++) {
        struct tutti_guest *guest;
        uint8_t nonce[TUTTI_GREET_NONCE_BYTES];
        int fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
            no_socket(door, now_ps);
            return;
        }
        if (!tutti_greet_nonce(nonce)) {
            close(fd);
            return;
        }
        guest = &door->guests[door->guest_count++];
        *guest = (struct tutti_guest){.fd = fd, .since_ps = now_ps};
        tutti_address_of_peer(fd, &guest->from);
        tutti_greet_host(&guest->greet, door->secret, door->secret_bytes, nonce);
    }
}

size_t tutti_door_polls(struct tutti_door *door, tutti_ps now_ps, struct pollfd *ret)
{
    if (door->fd < 0)
        return 0;
    if (door->shut_until_ps <= now_ps)
        door->shut_until_ps = 0;
    ret[0] = (struct pollfd){.fd = door->shut_until_ps > 0 ? -1 : door->fd, .events = POLLIN};
    for (uint32_t i = 0; i < door->guest_count; i++)
        ret[1 + i] = (struct pollfd){.fd = door->guests[i].fd,
                                     .events = door->guests[i].leaving
                                                   ? POLLIN
                                                   : tutti_greet_events(&door->guests[i].greet)};
    return 1 + door->guest_count;
}

void tutti_door_move(struct tutti_door *door, const struct pollfd *polls, tutti_ps now_ps)
{
    if (door->fd < 0)
        return;
    /* From the last to the first: what is forgotten is replaced by one already seen. */
    for (uint32_t i = door->guest_count; i-- > 0;) {
        if (polls[1 + i].revents != 0)
            move_guest(door, i, now_ps);
        else if (now_ps >= guest_due(&door->guests[i]))
            throw_out(door, i, "it has proved nothing for 5s");
    }
    if ((polls[0].revents & POLLIN) != 0)
        let_in(door, now_ps);
}

tutti_ps tutti_door_due(const struct tutti_door *door)
{
    tutti_ps due = door->shut_until_ps > 0 ? door->shut_until_ps : INT64_MAX;

    for (uint32_t i = 0; i < door->guest_count; i++)
        if (guest_due(&door->guests[i]) < due)
            due = guest_due(&door->guests[i]);
    return due;
}

void tutti_door_close(struct tutti_door *door)
{
    while (door->guest_count > 0)
        forget(door, door->guest_count - 1);
    if (door->fd >= 0)
        close(door->fd);
    door->fd = -1;
}
