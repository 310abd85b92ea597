/* How pairs come to be: opened to a member, called from outside, accepted. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/group/pair.h"
#include "runtime/group/progress.h"

static const tutti_ps ATTEMPT_PS = 5 * TUTTI_PS_PER_S;
static const tutti_ps PAUSE_PS = 10 * TUTTI_PS_PER_MS;

/* ---- the queue ---- */

struct tutti_pair_queue *tutti_pair_queue_new(void)
{
    struct tutti_pair_queue *queue = calloc(1, sizeof(*queue));

    if (queue == NULL)
        return NULL;
    queue->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
    if (queue->event_fd < 0) {
        free(queue);
        return NULL;
    }
    (void)pthread_mutex_init(&queue->lock, NULL);
    return queue;
}

void tutti_pair_queue_free(struct tutti_pair_queue *queue)
{
    if (queue == NULL)
        return;
    for (uint32_t i = 0; i < queue->count; i++)
        tutti_pair_close(queue->pairs[i]);
    close(queue->event_fd);
    (void)pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static bool has_room(struct tutti_pair_queue *queue)
{
    bool room;

    pthread_mutex_lock(&queue->lock);
    room = queue->count < TUTTI_PAIR_WAITING_MAX;
    pthread_mutex_unlock(&queue->lock);
    return room;
}

/* There is room: the progress thread alone puts. */
static void put(struct tutti_pair_queue *queue, struct tutti_pair *pair)
{
    uint64_t one = 1;

    pthread_mutex_lock(&queue->lock);
    assert(queue->count < TUTTI_PAIR_WAITING_MAX);
    queue->pairs[queue->count++] = pair;
    pthread_mutex_unlock(&queue->lock);
    (void)!write(queue->event_fd, &one, sizeof(one));
}

static struct tutti_pair *get(struct tutti_pair_queue *queue)
{
    struct tutti_pair *first = NULL;
    uint64_t one;

    pthread_mutex_lock(&queue->lock);
    if (queue->count > 0) {
        first = queue->pairs[0];
        queue->count--;
        memmove(queue->pairs, queue->pairs + 1, queue->count * sizeof(queue->pairs[0]));
    }
    pthread_mutex_unlock(&queue->lock);
    if (first != NULL)
        (void)!read(queue->event_fd, &one, sizeof(one));
    return first;
}

/* ---- the side that is called: in the progress thread ---- */

static bool refuse(struct tutti_client *client, enum tutti_handshake_reason reason, uint32_t value)
{
    tutti_handshake_refuse(&client->handshake, reason, value, "");
    return false;
}

bool tutti_pair_proved(struct tutti_group_tcp *group, struct tutti_client *client)
{
    const struct tutti_hello *hello = &client->handshake.said;
    bool member = hello->kind == TUTTI_HANDSHAKE_PAIR;
    struct tutti_pair *pair;
    bool complete;

    pthread_mutex_lock(&group->mailbox.lock);
    complete = group->mailbox.complete;
    pthread_mutex_unlock(&group->mailbox.lock);
    if (!complete || (member && hello->incarnation > group->view.incarnation))
        return refuse(client, TUTTI_HANDSHAKE_NOT_YET, 0);
    if (member && hello->incarnation < group->view.incarnation)
        return refuse(client, TUTTI_HANDSHAKE_LEFT_BEHIND, group->view.incarnation);
    if (member && (hello->view != group->view.id || hello->peer != group->base.index ||
                   hello->index >= group->base.count))
        return refuse(client, TUTTI_HANDSHAKE_OTHER_KIND, 0);
    pair = has_room(group->pairs) ? tutti_pair_new(client->fd,
                                                   member ? group->view.members[hello->index].id
                                                          : TUTTI_PAIR_NO_MEMBER,
                                                   hello->key)
                                  : NULL;
    if (pair == NULL)
        return refuse(client, TUTTI_HANDSHAKE_TOO_MANY, 0);
    client->handshake.value = group->view.members[group->base.index].id;
    tutti_handshake_welcome(&client->handshake, 0, NULL);
    if (tutti_handshake_talk(&client->handshake, client->fd) != 1) {
        free(pair);
        return false;
    }
    tutti_socket_tune(client->fd, (uint32_t)(group->stall_ps / TUTTI_PS_PER_MS), true);
    put(group->pairs, pair);
    return true;
}

/* ---- the side that calls ---- */

/* The welcome says who has taken it. */
static int make(struct tutti_call *call, tutti_ps stall_ps, uint64_t key, struct tutti_pair **ret,
                struct tutti_err *err)
{
    struct tutti_pair *pair = tutti_pair_new(call->fd, call->handshake.value, key);

    if (pair == NULL) {
        tutti_call_end(call);
        return tutti_nomem(err);
    }
    tutti_socket_tune(call->fd, (uint32_t)(stall_ps / TUTTI_PS_PER_MS), true);
    *ret = pair;
    return 0;
}

/* One attempt; GOING: none was possible within the time. */
static enum tutti_called attempt(struct tutti_group_tcp *group, uint32_t peer, uint64_t key,
                                 tutti_ps due_ps, struct tutti_call *call, struct tutti_err *err)
{
    struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_PAIR,
                                .index = group->base.index,
                                .count = group->base.count,
                                .peer = peer,
                                .key = key,
                                .incarnation = group->view.incarnation,
                                .view = group->view.id};
    tutti_ps until_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), ATTEMPT_PS);
    enum tutti_called how = TUTTI_CALL_GOING;
    struct tutti_address to;
    char name[TUTTI_ADDRESS_TEXT_BYTES];

    until_ps = until_ps < due_ps ? until_ps : due_ps;
    tutti_group_tcp_where(group, peer, &to);
    if (!tutti_call_begin(call, &to, group->session, sizeof(group->session), &hello, err))
        return TUTTI_CALL_FAILED;
    while (how == TUTTI_CALL_GOING && tutti_mailbox_now(&group->mailbox) < until_ps) {
        struct pollfd one = {.fd = call->fd, .events = tutti_call_events(call)};

        if (poll(&one, 1, tutti_mailbox_ms_until(&group->mailbox, until_ps)) > 0)
            how = tutti_call_move(call, tutti_address_text(&to, name), err);
    }
    if (how == TUTTI_CALL_GOING)
        (void)tutti_fail(err, TUTTI_EIO, "no answer from '%s'", tutti_address_text(&to, name));
    return how;
}

static bool may_try_again(const struct tutti_call *call, enum tutti_called how)
{
    uint32_t reason = call->handshake.reason;

    return how == TUTTI_CALL_GOING || (how == TUTTI_CALL_FAILED && call->code != ECONNREFUSED) ||
           (how == TUTTI_CALL_REFUSED &&
            (reason == TUTTI_HANDSHAKE_NOT_YET || reason == TUTTI_HANDSHAKE_TOO_MANY));
}

static struct tutti_group_tcp *of(const struct tutti_group *group)
{
    struct tutti_group_tcp *tcp = (struct tutti_group_tcp *)(uintptr_t)group;

    return group->ops == &tutti_group_tcp_ops && tcp->pairs != NULL ? tcp : NULL;
}

static int no_pairs(struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK, "there are pairs with groups over tcp that listen alone");
}

int tutti_pair_open(struct tutti_group *base, uint32_t peer, uint64_t key, tutti_ps deadline_ps,
                    struct tutti_pair **ret, struct tutti_err *err)
{
    struct tutti_group_tcp *group = of(base);
    struct tutti_call call = {.fd = -1};
    struct tutti_err why = {"it was not tried"};
    enum tutti_called how = TUTTI_CALL_GOING;
    char time[TUTTI_UNIT_TEXT_BYTES];
    tutti_ps due_ps;

    if (group == NULL)
        return no_pairs(err);
    if (peer >= base->count || peer == base->index)
        return tutti_fail(err, TUTTI_EINVAL, "no pair of process %u with process %u of %u",
                          base->index, peer, base->count);
    if (deadline_ps <= 0)
        deadline_ps = group->deadline_ps;
    due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), deadline_ps);
    while (how != TUTTI_CALL_DONE && tutti_mailbox_now(&group->mailbox) < due_ps) {
        how = attempt(group, peer, key, due_ps, &call, &why);
        if (how == TUTTI_CALL_DONE)
            break;
        tutti_call_end(&call);
        if (!may_try_again(&call, how)) {
            bool left_behind = call.handshake.reason == TUTTI_HANDSHAKE_LEFT_BEHIND;

            return tutti_fail(err, how == TUTTI_CALL_FAILED ? TUTTI_EIO : TUTTI_EINVAL,
                              "no pair with process %u of %u: %s", peer, base->count,
                              left_behind ? "it is of a later incarnation" : why.text);
        }
        (void)poll(NULL, 0, (int)(PAUSE_PS / TUTTI_PS_PER_MS));
    }
    if (how == TUTTI_CALL_DONE)
        return make(&call, group->stall_ps, key, ret, err);
    return tutti_fail(err, TUTTI_ETIME, "no pair with process %u of %u within %s: %s", peer,
                      base->count, tutti_print_time(deadline_ps, time), why.text);
}

int tutti_pair_call(const struct tutti_group_tcp_opts *opts, uint64_t key, struct tutti_pair **ret,
                    struct tutti_err *err)
{
    struct tutti_group_tcp_opts own;
    struct tutti_group_tcp *group = NULL;
    struct tutti_call call = {.fd = -1};
    int status = tutti_group_tcp_take(opts, &own, err);

    if (status < 0)
        return status;
    own.index = 1; /* of it and who takes the pair: of the group nothing more is told */
    own.count = 2;
    own.has_listen_fd = false;
    status = tutti_group_tcp_check(&own, err);
    if (status == 0)
        status = tutti_group_tcp_make(&own, &group, err);
    if (status == 0)
        status = tutti_group_tcp_call(group, &own, key, &call, err);
    if (status == 0)
        status = make(&call, group->stall_ps, key, ret, err);
    if (group != NULL)
        tutti_group_close(&group->base);
    return status;
}

/* ---- accept ---- */

int tutti_pair_accept(struct tutti_group *base, tutti_ps timeout_ps, struct tutti_pair **ret,
                      struct tutti_err *err)
{
    struct tutti_group_tcp *group = of(base);
    struct tutti_pair *pair;
    tutti_ps due_ps;

    if (group == NULL)
        return no_pairs(err);
    due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), timeout_ps);
    pair = get(group->pairs);
    while (pair == NULL && tutti_mailbox_now(&group->mailbox) < due_ps) {
        struct pollfd one = {.fd = group->pairs->event_fd, .events = POLLIN};

        (void)poll(&one, 1, tutti_mailbox_ms_until(&group->mailbox, due_ps));
        pair = get(group->pairs);
    }
    *ret = pair;
    return 0;
}

int tutti_pair_accept_fd(const struct tutti_group *base)
{
    const struct tutti_group_tcp *group = of(base);

    return group == NULL ? -1 : group->pairs->event_fd;
}
