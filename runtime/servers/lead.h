/* What server 0 decides: who is there, who sets up, who computes, what becomes of each gradient,
 * when a snapshot is taken, and when all is over. It drives two coordinators, the supervisor and,
 * while training runs, the asynchronous or synchronous one. Without I/O: whoever has it passes on
 * what comes, sends what it says, and tells it the time. */
#ifndef TUTTI_RUNTIME_SERVERS_LEAD_H
#define TUTTI_RUNTIME_SERVERS_LEAD_H

#include "runtime/servers/message.h"

struct tutti_lead;

/* Those that train are numbered with the chief first: a chief of its own is 0 and worker w is 1 +
 * w, else worker w is w. Servers are numbered as they are. */
struct tutti_lead_calls {
    void *context;
    /* A message of a head alone to one that trains. */
    void (*send)(void *context, uint32_t trainer, enum tutti_server_message message,
                 const struct tutti_server_head *head);
    /* To be carried out here, and sent to all other servers. */
    void (*verdict)(void *context, const struct tutti_server_head *verdict);
    void (*told)(void *context, const struct tutti_servers_told *told);
};

int tutti_lead_new(const struct tutti_servers_params *params, const struct tutti_lead_calls *calls,
                   double now_s, struct tutti_lead **ret, struct tutti_err *err);
void tutti_lead_free(struct tutti_lead *lead); /* NULL is a no-op */

static inline uint32_t lead_trainer_count(const struct tutti_servers_params *p)
{
    return p->worker_count + (p->has_chief ? 1 : 0);
}

/* Connections come and go; who comes twice is lost first. `saved_step` is the chief's. */
void tutti_lead_trainer_joined(struct tutti_lead *lead, uint32_t trainer);
void tutti_lead_trainer_lost(struct tutti_lead *lead, uint32_t trainer);
/* `generation` is of the weights that it has; the lead's next one is above it. */
void tutti_lead_server_joined(struct tutti_lead *lead, uint32_t server, uint64_t generation);
void tutti_lead_server_lost(struct tutti_lead *lead, uint32_t server);

/* What those that train say. `report` stays with the gradient. The chief is alive while a
 * checkpoint is written, and nothing else goes on perhaps. */
void tutti_lead_trainer_alive(struct tutti_lead *lead, uint32_t trainer);
void tutti_lead_pulled(struct tutti_lead *lead, uint32_t trainer,
                       const struct tutti_server_head *head);
void tutti_lead_done(struct tutti_lead *lead, uint32_t trainer,
                     const struct tutti_server_head *head,
                     const struct tutti_server_report *report);
void tutti_lead_set_up(struct tutti_lead *lead, uint32_t trainer,
                       const struct tutti_server_head *head);
void tutti_lead_saved(struct tutti_lead *lead, uint32_t trainer,
                      const struct tutti_server_head *head);
void tutti_lead_save_due(struct tutti_lead *lead);
/* Saves, and ends as if this were the last step. */
void tutti_lead_stop(struct tutti_lead *lead);

/* What time it is: before events that are to bear it. */
void tutti_lead_set_now(struct tutti_lead *lead, double now_s);
/* 0; or who has not come, was lost, or has been silent for longer than the deadline (a chief that
 * sets up, whose checkpoint may be long: ten of them). */
int tutti_lead_check(struct tutti_lead *lead, double now_s, struct tutti_err *err);

bool tutti_lead_is_over(const struct tutti_lead *lead);
uint64_t tutti_lead_generation(const struct tutti_lead *lead);
/* `by_worker` of *ret is the lead's. */
void tutti_lead_result(const struct tutti_lead *lead, struct tutti_servers_result *ret);

/* "worker 1", "the chief (worker 0)". */
void tutti_lead_name(const struct tutti_servers_params *params, uint32_t trainer, char *buf,
                     size_t buf_bytes);

#endif
