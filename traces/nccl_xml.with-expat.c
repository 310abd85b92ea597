/* The reader of NCCL topology XML: libexpat parses, nccl_xml/ makes the machine of it. */
#include <expat.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "traces/nccl_xml.h"
#include "traces/nccl_xml/build.h"

/* NCCL's own files are of a few KiB and nest to about ten. */
enum { BYTES_MAX = 64 << 20, NESTING_MAX = 64 };

struct reader {
    XML_Parser parser;
    struct tutti_xml xml;
    uint32_t open[NESTING_MAX]; /* the elements around the current place */
    uint32_t depth;
    int status;
    struct tutti_err *err;
};

static uint32_t line_of(const struct reader *reader)
{
    return (uint32_t)XML_GetCurrentLineNumber(reader->parser);
}

static void stop(struct reader *reader, int status)
{
    reader->status = status;
    (void)XML_StopParser(reader->parser, XML_FALSE);
}

static void XMLCALL on_start(void *user, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *reader = user;
    uint32_t parent = reader->depth == 0 ? TUTTI_XML_NONE : reader->open[reader->depth - 1];
    int status;

    if (reader->status < 0)
        return;
    if (reader->depth == NESTING_MAX) {
        stop(reader, tutti_fail(reader->err, TUTTI_EINVAL,
                                "%s: line %" PRIu32 ": more than %d elements inside each other",
                                reader->xml.name, line_of(reader), NESTING_MAX));
        return;
    }
    status = tutti_xml_add(&reader->xml, name, (const char *const *)attributes, parent,
                           line_of(reader), reader->err);
    if (status < 0)
        stop(reader, status);
    else
        reader->open[reader->depth++] = reader->xml.count - 1;
}

static void XMLCALL on_end(void *user, const XML_Char *name)
{
    struct reader *reader = user;

    (void)name;
    if (reader->status == 0)
        reader->depth--;
}

/* No topology has one, and without one there are no entities: nothing can be made to grow, and
 * nothing outside the file is ever named. */
static void XMLCALL on_doctype(void *user, const XML_Char *name, const XML_Char *system,
                               const XML_Char *public, int has_subset)
{
    struct reader *reader = user;

    (void)name;
    (void)system;
    (void)public;
    (void)has_subset;
    stop(reader, tutti_fail(reader->err, TUTTI_EINVAL,
                            "%s: line %" PRIu32 ": a document type declaration (none is needed, "
                            "and entities are not read)",
                            reader->xml.name, line_of(reader)));
}

static int read_text(struct reader *reader, const char *text, size_t bytes)
{
    enum XML_Error error;

    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, on_start, on_end);
    XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
    if (XML_Parse(reader->parser, text, (int)bytes, 1) == XML_STATUS_OK && reader->status == 0)
        return 0;
    if (reader->status < 0)
        return reader->status;
    error = XML_GetErrorCode(reader->parser);
    if (error == XML_ERROR_NO_MEMORY)
        return tutti_nomem(reader->err);
    return tutti_fail(reader->err, TUTTI_EINVAL, "%s: line %" PRIu32 ": not XML: %s",
                      reader->xml.name, line_of(reader), XML_ErrorString(error));
}

#define SOURCE                                                                                \
    "NCCL topology XML; rates a link: data sheets, between CPUs NCCL 2.28 topo.h; latencies " \
    "assumed"

/* Builds the machine; what had to be left out is said where its numbers come from. */
static int build(const struct tutti_xml *xml, struct tutti_topo_builder *builder,
                 struct tutti_err *err)
{
    char source[256];
    uint32_t left_out = 0;
    int status = tutti_xml_build(xml, builder, &left_out, err);

    if (status < 0 || left_out == 0)
        return status;
    (void)snprintf(source, sizeof(source),
                   "%s; left out: %" PRIu32 " links to no other GPU of the file", SOURCE, left_out);
    return tutti_topo_set_title(builder, NULL, source, err);
}

static int make_topo(const struct tutti_xml *xml, struct tutti_topo **ret, struct tutti_err *err)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_topo *topo = NULL;
    int status = tutti_topo_builder_new(xml->name, SOURCE, &builder, err);

    if (status < 0)
        return status;
    status = build(xml, builder, err);
    if (status < 0) {
        tutti_topo_builder_free(builder);
        return status;
    }
    status = tutti_topo_freeze(builder, &topo, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s", xml->name);
    *ret = topo;
    return 0;
}

bool tutti_nccl_xml_available(void)
{
    return true;
}

int tutti_nccl_xml_parse(const char *name, const char *text, size_t bytes, struct tutti_topo **ret,
                         struct tutti_err *err)
{
    struct reader reader = {.err = err};
    int status;

    if (bytes > BYTES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%s: %zu bytes of XML (at most %d)", name, bytes,
                          BYTES_MAX);
    status = tutti_xml_init(&reader.xml, name, err);
    if (status < 0)
        return status;
    reader.parser = XML_ParserCreate(NULL);
    status = reader.parser == NULL ? tutti_nomem(err) : read_text(&reader, text, bytes);
    XML_ParserFree(reader.parser);
    if (status == 0)
        status = make_topo(&reader.xml, ret, err);
    tutti_xml_done(&reader.xml);
    return status;
}
