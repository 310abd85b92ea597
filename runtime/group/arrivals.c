/* Who comes at the listener of a member: for a data connection, or for the next incarnation. */
#include <stdio.h>
#include <string.h>

#include "runtime/group/progress.h"

/* A member that works at the next incarnation, which this process does not yet: it has not seen
 * that anybody is lost, or its caller is at other things. */
static bool answer_shrink(struct tutti_group_tcp *group, struct tutti_client *client)
{
    const struct tutti_hello *hello = &client->handshake.said;
    uint32_t from = tutti_view_find(&group->view, hello->index);

    if (from == group->view.count) {
        tutti_handshake_refuse(&client->handshake, TUTTI_HANDSHAKE_LEFT_BEHIND,
                               group->view.incarnation, "");
        return false;
    }
    if (hello->view == group->view.id)
        tutti_progress_end(group, -TUTTI_EIO, "process %u of %u asks for a new group", from,
                           group->base.count);
    tutti_handshake_refuse(&client->handshake, TUTTI_HANDSHAKE_NOT_YET, 0, "");
    return false;
}

static bool proved(void *data, struct tutti_client *client)
{
    struct tutti_group_tcp *group = data;
    const struct tutti_hello *hello = &client->handshake.said;
    char who[TUTTI_ADDRESS_TEXT_BYTES + 64];
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    if (hello->kind == TUTTI_HANDSHAKE_LINK)
        return tutti_links_proved(group, client);
    if (hello->kind == TUTTI_HANDSHAKE_SHRINK)
        return answer_shrink(group, client);
    if (hello->kind == TUTTI_HANDSHAKE_ENTER)
        return tutti_newcomers_proved(group, client);
    if (hello->kind == TUTTI_HANDSHAKE_PAIR || hello->kind == TUTTI_HANDSHAKE_CALL)
        return tutti_pair_proved(group, client);
    snprintf(who, sizeof(who), "process %u of %u at '%s'", hello->index, hello->count,
             tutti_address_text(&client->from, text));
    tutti_progress_refused(group, who, "it wants what is not to be had here");
    tutti_handshake_refuse(&client->handshake, TUTTI_HANDSHAKE_OTHER_KIND, 0, "");
    return false;
}

static void refused(void *data, const struct tutti_client *client, const char *why)
{
    char text[TUTTI_ADDRESS_TEXT_BYTES];

    tutti_progress_refused(data, tutti_address_text(&client->from, text), why);
}

const struct tutti_listener_ops tutti_link_listener_ops = {.proved = proved, .refused = refused};
