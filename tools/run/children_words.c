/* What children say is passed on; see children.h. */
#include "tools/run/children_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* One write a line, so that those of several children do not mix. */
static void pass_line(const struct tutti_children *c, uint32_t index, const char *line,
                      size_t bytes)
{
    fprintf(c->sink->notes, "[%u] %.*s\n", index, (int)bytes, line);
}

/* What has come, line by line; a line that is too long is passed on in parts. */
void tutti_children_pass_words(struct tutti_children *c, uint32_t index)
{
    struct tutti_child *child = &c->children[index];
    ssize_t got =
        read(child->outputs, child->line + child->used, CHILDREN_LINE_BYTES - child->used);
    size_t start = 0;

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0)
        child->used += (size_t)got;
    for (size_t i = 0; i < child->used; i++) {
        if (child->line[i] != '\n')
            continue;
        pass_line(c, index, child->line + start, i - start);
        start = i + 1;
    }
    memmove(child->line, child->line + start, child->used - start);
    child->used -= start;
    if (child->used > 0 && (got <= 0 || child->used == CHILDREN_LINE_BYTES)) {
        pass_line(c, index, child->line, child->used);
        child->used = 0;
    }
    if (got <= 0)
        children_close_end(&child->outputs);
}

/* What a child has printed, where the sink is no file. */
void tutti_children_pass_results(struct tutti_children *c, uint32_t index)
{
    struct tutti_child *child = &c->children[index];
    char text[CHILDREN_LINE_BYTES];
    ssize_t got = read(child->results, text, sizeof(text));

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0) {
        fwrite(text, 1, (size_t)got, c->sink->out);
        return;
    }
    children_close_end(&child->results);
}

void tutti_children_drain(struct tutti_children *c, uint32_t index)
{
    struct tutti_child *child = &c->children[index];

    if (child->results >= 0)
        (void)fcntl(child->results, F_SETFL, O_NONBLOCK);
    for (int more = 0; child->results >= 0 && more < 64; more++)
        tutti_children_pass_results(c, index);
    if (child->outputs >= 0)
        (void)fcntl(child->outputs, F_SETFL, O_NONBLOCK);
    for (int more = 0; child->outputs >= 0 && more < 64; more++)
        tutti_children_pass_words(c, index);
}
