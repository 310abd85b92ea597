/* Data connections between members: the one with the higher index calls, the other lets in whom it
 * waits for, and both prove that they know the session key. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/group/progress.h"

static const tutti_ps GRACE_PS = 2 * TUTTI_PS_PER_S; /* to agree, after the deadline */
static const tutti_ps PAUSE_PS = 20 * TUTTI_PS_PER_MS;
static const tutti_ps ATTEMPT_PS = 5 * TUTTI_PS_PER_S;

enum { CALLS_AT_ONCE = 64 };

/* ---- the side that is called: in the progress thread ---- */

/* Where a caller belongs; wanted_count: nowhere. The mailbox is locked. */
static size_t place_of(const struct tutti_mailbox *mailbox, const struct tutti_hello *hello)
{
    size_t i = 0;

    while (i < mailbox->wanted_count &&
           (mailbox->wanted[i].peer != hello->index || mailbox->wanted[i].key != hello->key))
        i++;
    return i;
}

bool tutti_links_proved(struct tutti_group_tcp *group, struct tutti_client *client)
{
    struct tutti_mailbox *mailbox = &group->mailbox;
    const struct tutti_hello *hello = &client->handshake.said;
    char who[TUTTI_ADDRESS_TEXT_BYTES + 64];
    char text[TUTTI_ADDRESS_TEXT_BYTES];
    /* Of this incarnation: one of an earlier one may have lain at the listener since. */
    bool right = hello->view == group->view.id && hello->peer == group->base.index &&
                 hello->count == group->base.count && hello->index > group->base.index &&
                 hello->index < group->base.count;
    bool making;

    pthread_mutex_lock(&mailbox->lock);
    making = mailbox->wanted != NULL && mailbox->link_round == hello->round && !mailbox->over;
    right = right && making && place_of(mailbox, hello) < mailbox->wanted_count;
    pthread_mutex_unlock(&mailbox->lock);
    /* This process has given up already; why, the caller will learn from process 0. */
    if (!making) {
        tutti_handshake_refuse(&client->handshake, TUTTI_HANDSHAKE_BROKEN_OFF, 0, "");
        return false;
    }
    if (!right) {
        snprintf(who, sizeof(who), "process %u of %u at '%s'", hello->index, hello->count,
                 tutti_address_text(&client->from, text));
        tutti_progress_refused(group, who, "nobody waits for this link");
        tutti_handshake_refuse(&client->handshake, TUTTI_HANDSHAKE_NOT_WANTED, 0, "");
        return false;
    }
    tutti_handshake_welcome(&client->handshake, 0, NULL);
    if (tutti_handshake_talk(&client->handshake, client->fd) != 1)
        return false;
    tutti_socket_tune(client->fd, (uint32_t)(group->stall_ps / TUTTI_PS_PER_MS), true);
    pthread_mutex_lock(&mailbox->lock);
    /* The call may have ended meanwhile; then the socket ends with it. */
    if (mailbox->wanted != NULL && mailbox->link_round == hello->round) {
        int *place = &mailbox->link_fds[place_of(mailbox, hello)];

        /* A caller that calls again has given its first call up, for whatever reason. */
        if (*place >= 0)
            close(*place);
        *place = client->fd;
    } else {
        close(client->fd);
    }
    pthread_cond_broadcast(&mailbox->changed);
    pthread_mutex_unlock(&mailbox->lock);
    return true;
}

/* ---- the side that calls ---- */

struct calling {
    struct tutti_group_tcp *group;
    const struct tutti_group_tcp_link *wanted;
    size_t count;
    uint32_t round;
    int *fds;
    size_t next; /* of wanted, not looked at yet */
    uint32_t going_count;
    struct {
        struct tutti_call call;
        size_t at;           /* in wanted */
        tutti_ps not_before; /* when it is tried again */
        tutti_ps due_ps;     /* of this attempt */
    } slots[CALLS_AT_ONCE];
};

static bool start_call(struct calling *calling, uint32_t slot, struct tutti_err *err)
{
    struct tutti_group_tcp *group = calling->group;
    const struct tutti_group_tcp_link *link = &calling->wanted[calling->slots[slot].at];
    struct tutti_hello hello = {.kind = TUTTI_HANDSHAKE_LINK,
                                .index = group->base.index,
                                .count = group->base.count,
                                .peer = link->peer,
                                .round = calling->round,
                                .key = link->key,
                                .incarnation = group->view.incarnation,
                                .view = group->view.id};
    struct tutti_address to;

    tutti_group_tcp_where(group, link->peer, &to);
    calling->slots[slot].due_ps =
        tutti_group_after(tutti_mailbox_now(&calling->group->mailbox), ATTEMPT_PS);
    return tutti_call_begin(&calling->slots[slot].call, &to, group->session, sizeof(group->session),
                            &hello, err);
}

/* Puts what is left to be called into free slots. */
static void fill(struct calling *calling)
{
    while (calling->going_count < CALLS_AT_ONCE && calling->next < calling->count) {
        size_t at = calling->next++;

        if (calling->wanted[at].peer > calling->group->base.index)
            continue; /* it calls us */
        calling->slots[calling->going_count].at = at;
        calling->slots[calling->going_count].not_before = 0;
        calling->slots[calling->going_count].call.fd = -1;
        calling->going_count++;
    }
}

/* The slot's call has come to something. True: the slot is free. */
static int move_slot(struct calling *calling, uint32_t slot, tutti_ps now_ps, bool *ret_free,
                     struct tutti_err *err)
{
    struct tutti_call *call = &calling->slots[slot].call;
    size_t at = calling->slots[slot].at;
    char name[TUTTI_ADDRESS_TEXT_BYTES];
    enum tutti_called how = tutti_call_move(call, tutti_address_text(&call->to, name), err);

    *ret_free = false;
    if (how == TUTTI_CALL_REFUSED && call->handshake.reason == TUTTI_HANDSHAKE_BROKEN_OFF)
        how = TUTTI_CALL_FAILED;
    if (how == TUTTI_CALL_REFUSED)
        return call->status;
    if (how == TUTTI_CALL_FAILED) {
        tutti_call_end(call);
        calling->slots[slot].not_before = now_ps + PAUSE_PS;
    }
    if (how == TUTTI_CALL_DONE) {
        tutti_socket_tune(call->fd, (uint32_t)(calling->group->stall_ps / TUTTI_PS_PER_MS), true);
        calling->fds[at] = call->fd;
        call->fd = -1;
        *ret_free = true;
    }
    return 0;
}

static void free_slot(struct calling *calling, uint32_t slot)
{
    struct tutti_call *to = &calling->slots[slot].call;
    const struct tutti_call *from;

    calling->going_count--;
    if (slot == calling->going_count)
        return;
    from = &calling->slots[calling->going_count].call;
    calling->slots[slot] = calling->slots[calling->going_count];
    tutti_handshake_moved(&to->handshake, &from->handshake);
}

/* One look at all calls under way. */
static int turn(struct calling *calling, tutti_ps due_ps, struct tutti_err *err)
{
    struct pollfd polls[CALLS_AT_ONCE + 1];
    tutti_ps now_ps = tutti_mailbox_now(&calling->group->mailbox);
    tutti_ps wake_ps = due_ps;
    int status = 0;

    for (uint32_t i = 0; i < calling->going_count; i++) {
        struct tutti_call *call = &calling->slots[i].call;

        if (call->fd < 0 && now_ps >= calling->slots[i].not_before && !start_call(calling, i, err))
            calling->slots[i].not_before = now_ps + PAUSE_PS;
        polls[i] = (struct pollfd){.fd = call->fd, .events = tutti_call_events(call)};
        if (call->fd < 0 && calling->slots[i].not_before < wake_ps)
            wake_ps = calling->slots[i].not_before;
    }
    polls[calling->going_count] =
        (struct pollfd){.fd = calling->group->mailbox.over_fd, .events = POLLIN};
    if (poll(polls, calling->going_count + 1,
             tutti_mailbox_ms_until(&calling->group->mailbox, wake_ps)) < 0)
        return 0;
    if (polls[calling->going_count].revents != 0)
        return tutti_mailbox_told(&calling->group->mailbox, calling->group->base.index,
                                  calling->group->base.count, err);
    now_ps = tutti_mailbox_now(&calling->group->mailbox);
    for (uint32_t i = calling->going_count; i-- > 0 && status == 0;) {
        bool is_free = false;

        if (polls[i].revents != 0 && polls[i].fd >= 0)
            status = move_slot(calling, i, now_ps, &is_free, err);
        else if (polls[i].fd >= 0 && now_ps >= calling->slots[i].due_ps &&
                 !calling->slots[i].call.proving)
            tutti_call_end(&calling->slots[i].call);
        if (is_free)
            free_slot(calling, i);
    }
    return status;
}

static int missing(const struct calling *calling, size_t at, tutti_ps deadline_ps,
                   const struct tutti_err *why, struct tutti_err *err)
{
    char time[TUTTI_UNIT_TEXT_BYTES];

    return tutti_fail(err, TUTTI_ETIME, "no link with process %u of %u (key %llu) within %s%s%s",
                      calling->wanted[at].peer, calling->group->base.count,
                      (unsigned long long)calling->wanted[at].key,
                      tutti_print_time(deadline_ps, time), why->text[0] != '\0' ? ": " : "",
                      why->text);
}

static int call_all(struct calling *calling, tutti_ps due_ps, tutti_ps deadline_ps,
                    struct tutti_err *err)
{
    struct tutti_err why = {""};
    int status = 0;

    fill(calling);
    while (status == 0 && calling->going_count > 0) {
        if (tutti_mailbox_now(&calling->group->mailbox) >= due_ps)
            status = missing(calling, calling->slots[0].at, deadline_ps, &why, err);
        else
            status = turn(calling, due_ps, &why);
        if (status < 0 && status != -TUTTI_ETIME && err != NULL)
            *err = why;
        fill(calling);
    }
    for (uint32_t i = 0; i < calling->going_count; i++)
        tutti_call_end(&calling->slots[i].call);
    return status;
}

/* Those who call us come in at the progress thread's listener. */
static int wait_for_callers(struct calling *calling, tutti_ps due_ps, tutti_ps deadline_ps,
                            struct tutti_err *err)
{
    struct tutti_mailbox *mailbox = &calling->group->mailbox;
    const struct tutti_err why = {""};
    size_t at = 0;
    bool late = false;
    bool over;

    pthread_mutex_lock(&mailbox->lock);
    for (;;) {
        while (at < calling->count && calling->fds[at] >= 0)
            at++;
        over = mailbox->over;
        if (at == calling->count || over || late)
            break;
        late = !tutti_mailbox_wait(mailbox, due_ps);
    }
    pthread_mutex_unlock(&mailbox->lock);
    if (over)
        return tutti_mailbox_told(mailbox, calling->group->base.index, calling->group->base.count,
                                  err);
    return at == calling->count ? 0 : missing(calling, at, deadline_ps, &why, err);
}

/* ---- both ---- */

static int check(const struct tutti_group *group, const struct tutti_group_tcp_link *wanted,
                 size_t count, struct tutti_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (wanted[i].peer >= group->count || wanted[i].peer == group->index)
            return tutti_fail(err, TUTTI_EINVAL, "no link from process %u to process %u of %u",
                              group->index, wanted[i].peer, group->count);
        for (size_t j = 0; j < i; j++)
            if (wanted[i].peer == wanted[j].peer && wanted[i].key == wanted[j].key)
                return tutti_fail(err, TUTTI_EINVAL,
                                  "two links from process %u to process %u with the key %llu",
                                  group->index, wanted[i].peer, (unsigned long long)wanted[i].key);
    }
    return 0;
}

/* Opens and shuts the progress thread's listener for those who are wanted. */
static uint32_t expect(struct calling *calling, bool open)
{
    struct tutti_mailbox *mailbox = &calling->group->mailbox;
    uint32_t round;

    pthread_mutex_lock(&mailbox->lock);
    round = open ? ++mailbox->link_round : mailbox->link_round;
    mailbox->wanted = open ? calling->wanted : NULL;
    mailbox->wanted_count = open ? calling->count : 0;
    mailbox->link_fds = open ? calling->fds : NULL;
    pthread_mutex_unlock(&mailbox->lock);
    return round;
}

static int make(struct calling *calling, tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_group *group = &calling->group->base;
    tutti_ps due_ps = tutti_group_after(tutti_mailbox_now(&calling->group->mailbox), deadline_ps);
    int status;

    calling->round = expect(calling, true);
    /* Everybody's listener is open before anybody calls; nobody goes on before all have all. */
    status = tutti_group_exchange(group, NULL, 0, NULL, deadline_ps, err);
    if (status == 0)
        status = call_all(calling, due_ps, deadline_ps, err);
    if (status == 0)
        status = wait_for_callers(calling, due_ps, deadline_ps, err);
    if (status < 0)
        tutti_group_stop(group, status, err);
    else
        status = tutti_group_exchange(group, NULL, 0, NULL,
                                      tutti_group_after(deadline_ps, GRACE_PS), err);
    (void)expect(calling, false);
    return status;
}

int tutti_group_tcp_links(struct tutti_group *group, const struct tutti_group_tcp_link *wanted,
                          size_t count, int *ret_fds, tutti_ps deadline_ps, struct tutti_err *err)
{
    struct calling *calling;
    int *fds;
    int status = check(group, wanted, count, err);

    if (group->count == 1)
        return status;
    if (deadline_ps <= 0)
        deadline_ps = ((struct tutti_group_tcp *)group)->deadline_ps;
    calling = calloc(1, sizeof(*calling));
    fds = malloc((count > 0 ? count : 1) * sizeof(fds[0]));
    if (status == 0 && (calling == NULL || fds == NULL))
        status = tutti_nomem(err);
    if (status < 0) {
        tutti_group_stop(group, status, err);
        free(calling);
        free(fds);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        fds[i] = -1;
    *calling = (struct calling){
        .group = (struct tutti_group_tcp *)group, .wanted = wanted, .count = count, .fds = fds};
    status = make(calling, deadline_ps, err);
    for (size_t i = 0; i < count; i++) {
        if (status < 0 && fds[i] >= 0)
            close(fds[i]);
        if (status == 0)
            ret_fds[i] = fds[i];
    }
    free(fds);
    free(calling);
    return status;
}
