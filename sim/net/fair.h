/* What folding needs of the model `fair` beyond the table of net.h: connections that stand for
 * classes, and a look at a state that may be moved in time. */
#ifndef TUTTI_SIM_NET_FAIR_H
#define TUTTI_SIM_NET_FAIR_H

#include <stdint.h>

#include "sim/net/net.h"

enum { TUTTI_FAIR_CONNECTION_WORDS = 4, TUTTI_FAIR_MESSAGE_WORDS = 2 };

/* As ops->connect; `weights` as in tutti_maxmin_add. */
int tutti_fair_connect(struct tutti_net *net, const uint32_t *links, const uint32_t *weights,
                       uint32_t link_count, struct tutti_pace pace);

/* What decides how a connection, or a message under way, goes on, as words that do not depend on
 * when it is: two states whose words are equal take the same course. To be asked when ops->next has
 * said that nothing more happens at `now`. */
void tutti_fair_look_connection(const struct tutti_net *net, uint32_t connection, tutti_ps now,
                                int64_t *out);
void tutti_fair_look_message(const struct tutti_net *net, uint32_t message, tutti_ps now,
                             int64_t *out);

/* Moves all that is under way to a later time: 0 or -TUTTI_ENOMEM. */
int tutti_fair_shift(struct tutti_net *net, tutti_ps later_ps);

#endif
