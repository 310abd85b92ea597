"""Prints an event file of TensorBoard, read by Google's protobuf: a line an event.

The schema is written down from tensorboard/compat/proto (event.proto, summary.proto); the frames of
records are taken apart here. Exit 77: no protobuf for Python.
"""

import struct
import sys

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    sys.exit(77)

F = descriptor_pb2.FieldDescriptorProto
SCHEMA = {
    "HistogramProto": [
        ("min", 1, F.TYPE_DOUBLE), ("max", 2, F.TYPE_DOUBLE), ("num", 3, F.TYPE_DOUBLE),
        ("sum", 4, F.TYPE_DOUBLE), ("sum_squares", 5, F.TYPE_DOUBLE),
        ("bucket_limit", 6, [F.TYPE_DOUBLE]), ("bucket", 7, [F.TYPE_DOUBLE])],
    "Value": [("tag", 1, F.TYPE_STRING), ("simple_value", 2, F.TYPE_FLOAT),
              ("histo", 5, "HistogramProto")],
    "Summary": [("value", 1, ["Value"])],
    "Event": [("wall_time", 1, F.TYPE_DOUBLE), ("step", 2, F.TYPE_INT64),
              ("file_version", 3, F.TYPE_STRING), ("summary", 5, "Summary")],
}


def event_class():
    file = descriptor_pb2.FileDescriptorProto(name="event.proto", package="read", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        for field, number, kind in fields:
            added = message.field.add(name=field, number=number, label=F.LABEL_OPTIONAL)
            if isinstance(kind, list):
                added.label, kind = F.LABEL_REPEATED, kind[0]
            if isinstance(kind, str):
                added.type, added.type_name = F.TYPE_MESSAGE, ".read." + kind
            else:
                added.type = kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("read.Event")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked_crc32c(data[at:at + 8]), "the length's checksum"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, "a record is cut off"
        (check,) = struct.unpack_from("<I", data, at + 12 + length)
        assert check == masked_crc32c(body), "the data's checksum"
        yield body
        at += 16 + length


def show(event):
    print(f"{event.wall_time:.3f} step {event.step} {event.file_version}".rstrip())
    for value in event.summary.value:
        if not value.HasField("histo"):
            print(f"  {value.tag} = {value.simple_value:.7g}")
            continue
        h = value.histo
        print(f"  {value.tag}: {h.num:g} in [{h.min:g}, {h.max:g}], sum {h.sum:g}, squares "
              f"{h.sum_squares:g}")
        print("   ", " ".join(f"<={limit:.4g}:{count:g}"
                              for limit, count in zip(h.bucket_limit, h.bucket, strict=True)))


def main():
    cls = event_class()
    with open(sys.argv[1], "rb") as file:
        for body in records(file.read()):
            show(cls.FromString(body))


main()
