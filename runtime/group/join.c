/* The way of a process to process 0, as the group is opened or later: tried until the deadline,
 * unless it is refused for good. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "runtime/group/regroup.h"

static const tutti_ps ATTEMPT_PS = 5 * TUTTI_PS_PER_S; /* to connect and to be challenged */
static const tutti_ps PAUSE_PS_MIN = 10 * TUTTI_PS_PER_MS;
static const tutti_ps PAUSE_PS_MAX = 500 * TUTTI_PS_PER_MS;

/* The way of one process. */
struct way {
    const struct tutti_group_tcp_opts *opts;
    enum tutti_handshake_kind kind; /* to join as the group is opened, or to enter later */
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    uint64_t key; /* of a pair */
    uint32_t turn;
    bool sent_on; /* to where newcomers are let in: for one attempt */
    struct tutti_address elsewhere;
    struct tutti_call call;
};

/* One attempt at one address. */
static enum tutti_called attempt(struct tutti_group_tcp *group, const struct tutti_member *member,
                                 struct way *way, struct tutti_err *err)
{
    struct tutti_hello hello = {.kind = way->kind,
                                .index = group->base.index,
                                .count = group->base.count,
                                .key = way->key,
                                .port = member->port};
    tutti_ps due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), ATTEMPT_PS);
    enum tutti_called how = TUTTI_CALL_GOING;
    struct tutti_call *call = &way->call;
    const char *name = way->opts->root;

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
            how = tutti_call_move(call, name, err);
        } else if (tutti_mailbox_now(&group->mailbox) >= due_ps) {
            (void)tutti_fail(err, TUTTI_EIO, "no answer from '%s'", name);
            how = TUTTI_CALL_FAILED;
        }
    }
    return how;
}

/* Looks process 0 up, which may get its name late; each turn takes its next address. */
static int look_up(struct tutti_group_tcp *group, struct way *way, struct tutti_err *err)
{
    tutti_ps wait_ps = group->open_due_ps - tutti_mailbox_now(&group->mailbox);
    int status = 0;

    if (way->sent_on) {
        group->root = way->elsewhere;
        way->sent_on = false;
    } else {
        status = tutti_address_resolve(way->host, way->port, way->turn, wait_ps, &group->root, err);
        if (status < 0 && way->turn > 0) {
            way->turn = 0;
            wait_ps = group->open_due_ps - tutti_mailbox_now(&group->mailbox);
            status = tutti_address_resolve(way->host, way->port, 0, wait_ps, &group->root, err);
        }
        ++way->turn;
    }
    if (status == 0 && group->secret == NULL && !way->opts->open_to_all &&
        !tutti_address_is_loopback(&group->root)) {
        char text[TUTTI_ADDRESS_TEXT_BYTES];

        /* open has looked at the words; this is what they stand for. */
        return tutti_fail(err, TUTTI_EIO, "'%s' is not on this host, which takes a secret",
                          tutti_address_text(&group->root, text));
    }
    return status;
}

static enum tutti_called try_once(struct tutti_group_tcp *group, struct way *way,
                                  struct tutti_err *err)
{
    struct tutti_member member = {.port = 0};
    int status = look_up(group, way, err);

    if (status < 0)
        return TUTTI_CALL_FAILED;
    if (way->kind == TUTTI_HANDSHAKE_CALL)
        return attempt(group, &member, way, err);
    status = tutti_group_tcp_listen_links(group, way->opts, &group->root, &member, err);
    if (status < 0) {
        way->call.status = status;
        return TUTTI_CALL_REFUSED;
    }
    return attempt(group, &member, way, err);
}

static void pause_for(const struct tutti_group_tcp *group, tutti_ps ps)
{
    int ms = (int)(ps / TUTTI_PS_PER_MS);
    int left_ms = tutti_mailbox_ms_until(&group->mailbox, group->open_due_ps);

    (void)poll(NULL, 0, ms < left_ms ? ms : left_ms);
}

/* What passes, or is only another way. */
static bool may_try_again(struct way *way)
{
    char host[TUTTI_HOST_BYTES];
    uint16_t port;

    if (way->kind == TUTTI_HANDSHAKE_JOIN)
        return way->opts->again && (way->call.handshake.reason == TUTTI_HANDSHAKE_TWICE ||
                                    way->call.handshake.reason == TUTTI_HANDSHAKE_BROKEN_OFF);
    switch (way->call.handshake.reason) {
    case TUTTI_HANDSHAKE_NOT_YET:
    case TUTTI_HANDSHAKE_TOO_MANY:
        return true;
    case TUTTI_HANDSHAKE_ELSEWHERE:
        way->sent_on = tutti_address_split(way->call.handshake.note, host, &port, NULL) == 0 &&
                       tutti_address_of_numbers(host, &way->elsewhere);
        if (way->sent_on)
            tutti_address_set_port(&way->elsewhere, port);
        return true;
    default:
        return false;
    }
}

/* Until process 0 has let it in, or never will, or the time is over. */
static enum tutti_called knock(struct tutti_group_tcp *group, struct way *way,
                               struct tutti_err *why)
{
    enum tutti_called how = TUTTI_CALL_FAILED;
    tutti_ps pause_ps = PAUSE_PS_MIN;

    while (how == TUTTI_CALL_FAILED && tutti_mailbox_now(&group->mailbox) < group->open_due_ps) {
        how = try_once(group, way, why);
        if (how == TUTTI_CALL_REFUSED && may_try_again(way))
            how = TUTTI_CALL_FAILED;
        if (how != TUTTI_CALL_FAILED)
            return how;
        tutti_call_end(&way->call);
        if (way->sent_on)
            continue;
        pause_for(group, pause_ps);
        pause_ps = pause_ps > PAUSE_PS_MAX / 2 ? PAUSE_PS_MAX : 2 * pause_ps;
    }
    return how;
}

static int begin(struct way *way, const struct tutti_group_tcp_opts *opts,
                 enum tutti_handshake_kind kind, struct tutti_err *err)
{
    *way = (struct way){.opts = opts, .kind = kind, .call = {.fd = -1}};
    return tutti_address_split(opts->root, way->host, &way->port, err);
}

static void come_in(struct tutti_group_tcp *group, const struct way *way)
{
    struct tutti_address own;

    memcpy(group->session, way->call.handshake.session, sizeof(group->session));
    tutti_address_of_socket(way->call.fd, &own);
    if (own.as.any.sa_family == AF_INET6)
        group->scope = own.as.v6.sin6_scope_id;
    tutti_socket_tune(way->call.fd, (uint32_t)(group->stall_ps / TUTTI_PS_PER_MS), false);
}

int tutti_group_tcp_come(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                         struct tutti_err *err)
{
    struct way way;
    char time[TUTTI_UNIT_TEXT_BYTES];
    enum tutti_called how;
    struct tutti_err why = {"it was not tried"};
    int status = begin(&way, opts, TUTTI_HANDSHAKE_JOIN, err);

    if (status < 0)
        return status;
    how = knock(group, &way, &why);
    if (how != TUTTI_CALL_DONE) {
        bool late = way.call.handshake.reason == TUTTI_HANDSHAKE_BROKEN_OFF;

        tutti_call_end(&way.call);
        if (how == TUTTI_CALL_REFUSED && late)
            return tutti_fail(err, TUTTI_EIO,
                              "process 0 of %u ('%s') has broken off before this one came%s%s",
                              group->base.count, opts->root,
                              way.call.handshake.note[0] != 0 ? ": " : "", way.call.handshake.note);
        if (how == TUTTI_CALL_REFUSED) {
            if (err != NULL)
                *err = why;
            return way.call.status;
        }
        return tutti_fail(err, TUTTI_ETIME, "process 0 of %u has not been reached within %s: %s",
                          group->base.count, tutti_print_time(group->deadline_ps, time), why.text);
    }
    come_in(group, &way);
    /* From now on process 0 decides how long is waited for the others. */
    group->open_due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox),
                                           (tutti_ps)way.call.handshake.wait_ms * TUTTI_PS_PER_MS);
    tutti_peer_open(&group->peers[0], way.call.fd, tutti_mailbox_now(&group->mailbox));
    return 0;
}

/* ---- newcomers ---- */

/* Let in: waits until the members admit it. The welcome has said what it is called; of itself and
 * process 0 it knows no more yet, and makes itself a view of both. */
static int wait_to_be_admitted(struct tutti_group_tcp *group, struct way *way,
                               struct tutti_group **ret, struct tutti_err *err)
{
    tutti_ps left_ps = group->open_due_ps - tutti_mailbox_now(&group->mailbox);
    struct tutti_regroup regroup;
    int status;

    group->view.incarnation = 0;
    group->view.members[0] = (struct tutti_member){.id = way->call.handshake.value};
    group->view.members[1] = (struct tutti_member){.id = UINT32_MAX};
    status = tutti_regroup_open(&regroup, group, 0, left_ps > 0 ? left_ps : 1, err);
    if (status < 0)
        return status;
    regroup.admits = true;
    regroup.is_newcomer = true;
    regroup.place = 0;
    regroup.quiet_ps = group->stall_ps;
    tutti_regroup_follow(&regroup, 1, way->call.fd);
    way->call.fd = -1;
    status = tutti_regroup_run(&regroup, err);
    if (status == 0)
        status = tutti_successor_start(&regroup, ret, err);
    tutti_regroup_close(&regroup);
    return status;
}

/* Comes, waits, and comes again where process 0 is lost meanwhile. */
static int enter(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                 struct tutti_group **ret, struct tutti_err *err)
{
    struct way way;
    char time[TUTTI_UNIT_TEXT_BYTES];
    enum tutti_called how = TUTTI_CALL_DONE;
    struct tutti_err why = {"it was not tried"};
    int status = begin(&way, opts, TUTTI_HANDSHAKE_ENTER, err);

    if (status < 0)
        return status;
    while (tutti_mailbox_now(&group->mailbox) < group->open_due_ps) {
        how = knock(group, &way, &why);
        status = how == TUTTI_CALL_REFUSED ? way.call.status : -TUTTI_ETIME;
        if (how == TUTTI_CALL_DONE) {
            come_in(group, &way);
            status = wait_to_be_admitted(group, &way, ret, &why);
        }
        tutti_call_end(&way.call);
        if (status == 0)
            return 0;
        if (how == TUTTI_CALL_REFUSED || status == -TUTTI_ENOMEM || group->links == NULL) {
            if (err != NULL)
                *err = why;
            return status;
        }
        pause_for(group, PAUSE_PS_MIN);
    }
    return tutti_fail(err, TUTTI_ETIME, "no group at '%s' has admitted this process within %s%s%s",
                      opts->root, tutti_print_time(group->deadline_ps, time),
                      how == TUTTI_CALL_DONE ? "" : ": ", how == TUTTI_CALL_DONE ? "" : why.text);
}

int tutti_group_tcp_join(const struct tutti_group_tcp_opts *opts, struct tutti_group **ret,
                         struct tutti_err *err)
{
    struct tutti_group_tcp_opts own;
    struct tutti_group_tcp *group = NULL;
    int status = tutti_group_tcp_take(opts, &own, err);

    if (status < 0)
        return status;
    /* Until it is told more: of itself and process 0. */
    own.index = 1;
    own.count = 2;
    own.has_listen_fd = false;
    status = tutti_group_tcp_check(&own, err);
    if (status == 0)
        status = tutti_group_tcp_make(&own, &group, err);
    if (status == 0)
        status = enter(group, &own, ret, err);
    if (group != NULL)
        tutti_group_close(&group->base);
    return status;
}

/* ---- pairs ---- */

int tutti_group_tcp_call(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                         uint64_t key, struct tutti_call *ret, struct tutti_err *err)
{
    struct way way;
    char time[TUTTI_UNIT_TEXT_BYTES];
    enum tutti_called how;
    struct tutti_err why = {"it was not tried"};
    int status = begin(&way, opts, TUTTI_HANDSHAKE_CALL, err);

    if (status < 0)
        return status;
    way.key = key;
    how = knock(group, &way, &why);
    if (how == TUTTI_CALL_DONE) {
        *ret = way.call;
        tutti_handshake_moved(&ret->handshake, &way.call.handshake);
        return 0;
    }
    tutti_call_end(&way.call);
    if (how == TUTTI_CALL_REFUSED)
        return tutti_fail(err, (enum tutti_status) - way.call.status, "%s", why.text);
    return tutti_fail(err, TUTTI_ETIME, "nobody at '%s' has taken a pair within %s: %s", opts->root,
                      tutti_print_time(group->deadline_ps, time), why.text);
}
