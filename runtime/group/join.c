/* The way of a process to process 0: tried until the deadline, unless it is refused for good. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "runtime/group/progress.h"

static const tutti_ps ATTEMPT_PS = 5 * TUTTI_PS_PER_S; /* to connect and to be challenged */
static const tutti_ps PAUSE_PS_MIN = 10 * TUTTI_PS_PER_MS;
static const tutti_ps PAUSE_PS_MAX = 500 * TUTTI_PS_PER_MS;

/* One attempt at one address. */
static enum tutti_called attempt(struct tutti_group_tcp *group,
                                 const struct tutti_group_tcp_opts *opts,
                                 const struct tutti_member *member, struct tutti_call *call,
                                 struct tutti_err *err)
{
    struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_JOIN,
                                .index = group->base.index,
                                .count = group->base.count,
                                .port = member->port};
    tutti_ps due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), ATTEMPT_PS);
    enum tutti_called how = TUTTI_CALL_GOING;

    memcpy(hello.address, member->address, sizeof(hello.address));
    if (due_ps > group->open_due_ps)
        due_ps = group->open_due_ps;
    if (!tutti_call_begin(call, &group->root, group->secret, group->secret_bytes, &hello, err))
        return TUTTI_CALL_FAILED;
    while (how == TUTTI_CALL_GOING) {
        struct pollfd poll_fd = {.fd = call->fd, .events = tutti_call_events(call)};

        /* Once this side has proved, it may be in: process 0 would take its going for a death. */
        if (call->proving)
            due_ps = group->open_due_ps;
        if (poll(&poll_fd, 1, tutti_mailbox_ms_until(&group->mailbox, due_ps)) > 0) {
            how = tutti_call_move(call, opts->root, err);
        } else if (tutti_mailbox_now(&group->mailbox) >= due_ps) {
            (void)tutti_fail(err, TUTTI_EIO, "no answer from '%s'", opts->root);
            how = TUTTI_CALL_FAILED;
        }
    }
    return how;
}

/* Looks process 0 up, which may get its name late; each turn takes its next address. */
static int look_up(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                   const char *host, uint16_t port, uint32_t *turn, struct tutti_err *err)
{
    tutti_ps wait_ps = group->open_due_ps - tutti_mailbox_now(&group->mailbox);
    int status = tutti_address_resolve(host, port, *turn, wait_ps, &group->root, err);

    if (status < 0 && *turn > 0) {
        *turn = 0;
        wait_ps = group->open_due_ps - tutti_mailbox_now(&group->mailbox);
        status = tutti_address_resolve(host, port, 0, wait_ps, &group->root, err);
    }
    ++*turn;
    if (status == 0 && group->secret == NULL && !opts->open_to_all &&
        !tutti_address_is_loopback(&group->root)) {
        char text[TUTTI_ADDRESS_TEXT_BYTES];

        /* open has looked at the words; this is what they stand for. */
        return tutti_fail(err, TUTTI_EIO, "'%s' is not on this host, which takes a secret",
                          tutti_address_text(&group->root, text));
    }
    return status;
}

static enum tutti_called try_once(struct tutti_group_tcp *group,
                                  const struct tutti_group_tcp_opts *opts, const char *host,
                                  uint16_t port, uint32_t *turn, struct tutti_call *call,
                                  struct tutti_err *err)
{
    struct tutti_member member = {.port = 0};
    int status = look_up(group, opts, host, port, turn, err);

    if (status < 0)
        return TUTTI_CALL_FAILED;
    status = tutti_group_tcp_listen_links(group, opts, &group->root, &member, err);
    if (status < 0) {
        call->status = status;
        return TUTTI_CALL_REFUSED;
    }
    return attempt(group, opts, &member, call, err);
}

static void pause_for(const struct tutti_group_tcp *group, tutti_ps ps)
{
    int ms = (int)(ps / TUTTI_PS_PER_MS);
    int left_ms = tutti_mailbox_ms_until(&group->mailbox, group->open_due_ps);

    (void)poll(NULL, 0, ms < left_ms ? ms : left_ms);
}

int tutti_group_tcp_come(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                         struct tutti_err *err)
{
    struct tutti_call call = {.fd = -1};
    struct tutti_address own;
    char host[TUTTI_HOST_BYTES];
    char time[TUTTI_UNIT_TEXT_BYTES];
    enum tutti_called how = TUTTI_CALL_FAILED;
    struct tutti_err why = {"it was not tried"};
    tutti_ps pause_ps = PAUSE_PS_MIN;
    uint16_t port;
    uint32_t turn = 0;
    int status = tutti_address_split(opts->root, host, &port, err);

    if (status < 0)
        return status;
    while (how == TUTTI_CALL_FAILED && tutti_mailbox_now(&group->mailbox) < group->open_due_ps) {
        how = try_once(group, opts, host, port, &turn, &call, &why);
        if (how != TUTTI_CALL_FAILED)
            break;
        tutti_call_end(&call);
        pause_for(group, pause_ps);
        pause_ps = pause_ps > PAUSE_PS_MAX / 2 ? PAUSE_PS_MAX : 2 * pause_ps;
    }
    if (how != TUTTI_CALL_DONE) {
        bool late = call.handshake.reason == TUTTI_HANDSHAKE_BROKEN_OFF;

        tutti_call_end(&call);
        if (how == TUTTI_CALL_REFUSED && late)
            return tutti_fail(err, TUTTI_EIO,
                              "process 0 of %u ('%s') has broken off before this one came%s%s",
                              group->base.count, opts->root,
                              call.handshake.note[0] != 0 ? ": " : "", call.handshake.note);
        if (how == TUTTI_CALL_REFUSED) {
            if (err != NULL)
                *err = why;
            return call.status;
        }
        return tutti_fail(err, TUTTI_ETIME, "process 0 of %u has not been reached within %s: %s",
                          group->base.count, tutti_print_time(group->deadline_ps, time), why.text);
    }
    memcpy(group->session, call.handshake.session, sizeof(group->session));
    tutti_address_of_socket(call.fd, &own);
    if (own.as.any.sa_family == AF_INET6)
        group->scope = own.as.v6.sin6_scope_id;
    /* From now on process 0 decides how long is waited for the others. */
    group->open_due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox),
                                           (tutti_ps)call.handshake.wait_ms * TUTTI_PS_PER_MS);
    tutti_socket_tune(call.fd, (uint32_t)(group->stall_ps / TUTTI_PS_PER_MS), false);
    tutti_peer_open(&group->peers[0], call.fd, tutti_mailbox_now(&group->mailbox));
    return 0;
}
