/* A look at the state of the model `alphabeta`, which may be moved in time: for who skips what
 * repeats. Not for links with token buckets. */
#ifndef TUTTI_SIM_NET_ALPHABETA_H
#define TUTTI_SIM_NET_ALPHABETA_H

#include "sim/net/net.h"
#include "sim/queue/queue.h"

/* How long a link, or a connection, still has to send; how long a message is still under way, -1
 * if it is not. With the order of arrivals that is all that decides how things go on. */
tutti_ps tutti_alphabeta_link_ps(const struct tutti_net *net, uint32_t link, tutti_ps now);
tutti_ps tutti_alphabeta_connection_ps(const struct tutti_net *net, uint32_t connection,
                                       tutti_ps now);
tutti_ps tutti_alphabeta_message_ps(const struct tutti_net *net, uint32_t message, tutti_ps now);

/* The messages under way. */
const struct tutti_queue *tutti_alphabeta_arrivals(const struct tutti_net *net);

/* Moves all that is under way to a later time; `items` is scratch, with room for all messages. */
void tutti_alphabeta_shift(struct tutti_net *net, tutti_ps later_ps,
                           struct tutti_queue_item *items);

#endif
