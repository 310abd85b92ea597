/* The flat document: adding elements, and reading attributes with messages that name the line. */
#include "traces/nccl_xml/tree.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"

/* NCCL itself stops at 256 elements a rank; 65,536 are more than the largest NVLink domain has. */
enum { ELEMENTS_MAX = 1 << 16, ELEMENTS_FIRST = 256, ATTRIBUTES_MAX = 64, QUOTED_MAX = 40 };

int tutti_xml_init(struct tutti_xml *xml, const char *name, struct tutti_err *err)
{
    *xml = (struct tutti_xml){.name = name};
    xml->arena = tutti_arena_new();
    return xml->arena == NULL ? tutti_nomem(err) : 0;
}

void tutti_xml_done(struct tutti_xml *xml)
{
    tutti_arena_free(xml->arena);
    free(xml->elements);
    *xml = (struct tutti_xml){0};
}

static int grow(struct tutti_xml *xml, struct tutti_err *err)
{
    uint32_t wanted = xml->capacity == 0 ? ELEMENTS_FIRST : xml->capacity * 2;
    struct tutti_xml_element *moved;

    if (xml->count < xml->capacity)
        return 0;
    moved = realloc(xml->elements, wanted * sizeof(*moved));
    if (moved == NULL)
        return tutti_nomem(err);
    xml->elements = moved;
    xml->capacity = wanted;
    return 0;
}

static const char *const *copy_attributes(struct tutti_xml *xml, const char *const *attributes,
                                          size_t count)
{
    const char **copies = tutti_arena_take(xml->arena, count + 1, sizeof(*copies));

    for (size_t i = 0; copies != NULL && i < count; i++) {
        copies[i] = tutti_arena_copy_text(xml->arena, attributes[i]);
        if (copies[i] == NULL)
            return NULL;
    }
    return copies;
}

int tutti_xml_add(struct tutti_xml *xml, const char *name, const char *const *attributes,
                  uint32_t parent, uint32_t line, struct tutti_err *err)
{
    struct tutti_xml_element element = {.parent = parent, .line = line};
    size_t count = 0;
    int status;

    assert(parent == TUTTI_XML_NONE || parent < xml->count);
    while (attributes[count] != NULL)
        count++;
    if (xml->count >= ELEMENTS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%s: line %u: more than %d elements", xml->name, line,
                          ELEMENTS_MAX);
    if (count / 2 > ATTRIBUTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: line %u: an element of %zu attributes (at most "
                          "%d)",
                          xml->name, line, count / 2, ATTRIBUTES_MAX);
    status = grow(xml, err);
    if (status < 0)
        return status;
    element.name = tutti_arena_copy_text(xml->arena, name);
    element.attributes = copy_attributes(xml, attributes, count);
    if (element.name == NULL || element.attributes == NULL)
        return tutti_nomem(err);
    xml->elements[xml->count++] = element;
    return 0;
}

const char *tutti_xml_value(const struct tutti_xml_element *element, const char *attribute)
{
    for (const char *const *pair = element->attributes; pair[0] != NULL; pair += 2)
        if (strcmp(pair[0], attribute) == 0)
            return pair[1][0] == '\0' ? NULL : pair[1];
    return NULL;
}

int tutti_xml_number(const struct tutti_xml *xml, const struct tutti_xml_element *element,
                     const char *attribute, int64_t absent, int64_t min, int64_t max, int64_t *ret,
                     struct tutti_err *err)
{
    const char *text = tutti_xml_value(element, attribute);
    char quoted[TUTTI_XML_QUOTE_BYTES];
    char *end;
    int64_t number;

    if (text == NULL) {
        *ret = absent;
        return 0;
    }
    errno = 0;
    number = strtoll(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    if (errno != 0 || end == text || *end != '\0' || isspace((unsigned char)text[0]) ||
        number < min || number > max)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "%s: line %u: %s of %s is '%s' (a number from %" PRId64 " to %" PRId64 ")", xml->name,
            element->line, attribute, element->name, tutti_xml_quote(text, quoted), min, max);
    *ret = number;
    return 0;
}

uint64_t tutti_xml_bus(const struct tutti_xml_element *element, const char *attribute)
{
    static const char digits[] = "0123456789abcdef";
    const char *text = tutti_xml_value(element, attribute);
    uint64_t number = 0;

    for (; text != NULL && *text != '\0'; text++) {
        const char *digit = strchr(digits, tolower((unsigned char)*text));

        if (*text == ':' || *text == '.')
            continue;
        if (digit == NULL)
            break;
        number = number << 4 | (uint64_t)(digit - digits);
    }
    return number;
}

uint64_t tutti_xml_device_ids(const struct tutti_xml_element *pci)
{
    static const char *const parts[] = {"vendor", "device", "subsystem_vendor", "subsystem_device"};
    uint64_t id = 0;

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const char *text = tutti_xml_value(pci, parts[i]);

        id = id << 16 | (text == NULL ? 0 : strtoull(text, NULL, 16) & 0xffff);
    }
    return id;
}

const char *tutti_xml_quote(const char *text, char *buf)
{
    size_t used = 0;

    for (; text[used] != '\0' && used < QUOTED_MAX; used++)
        buf[used] = (char)(isprint((unsigned char)text[used]) ? text[used] : '?');
    buf[used] = '\0';
    if (text[used] != '\0')
        memcpy(buf + used, "...", 4);
    return buf;
}
