// Every text of a message has a limit.
#include "services/foghorn/helmsman/messages.h"

#include <doctest/doctest.h>
#include <google/protobuf/descriptor.h>

#include <functional>
#include <map>
#include <set>

using namespace warren;
namespace pb = foghorn_control;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

// Fields that may be longer than an id.
const std::map<std::string, std::size_t> longer{
    {"foghorn_control.Register.base_url", 4096},
    {"foghorn_control.StreamBuffer.details_json", 256u << 10},
    {"foghorn_control.TrackList.track_list", 256u << 10},
    {"foghorn_control.ViewerConnect.request_url", 8192},
    {"foghorn_control.ViewerDisconnect.request_url", 8192},
    {"foghorn_control.NodeLifecycleUpdate.location", 4096},
    {"foghorn_control.NodeLifecycleUpdate.base_url", 4096},
    {"foghorn_control.NodeLifecycleUpdate.outputs_json", 64u << 10},
    {"foghorn_control.NodeLifecycleUpdate.Storage.local_path", 4096},
    {"foghorn_control.NodeLifecycleUpdate.Storage.s3_bucket", 4096},
    {"foghorn_control.NodeLifecycleUpdate.Storage.s3_prefix", 4096},
    {"foghorn_control.NodeLifecycleUpdate.Artifact.type", 4096},
    {"foghorn_control.NodeLifecycleUpdate.Artifact.path", 4096},
};

// Calls `use` for each text field of the message and of those within it; `put` writes the field.
using Put = std::function<void(const std::string&)>;
using Use = std::function<void(const FieldDescriptor&, const Put&)>;
void each_text(Message& message, const Use& use) {
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const auto& field = *message.GetDescriptor()->field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      use(field, [&](const std::string& text) {
        if (field.is_repeated())
          reflection.AddString(&message, &field, text);
        else
          reflection.SetString(&message, &field, text);
      });
      reflection.ClearField(&message, &field);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      auto* inner = field.is_repeated() ? reflection.AddMessage(&message, &field)
                                        : reflection.MutableMessage(&message, &field);
      each_text(*inner, use);
      reflection.ClearField(&message, &field);
    }
  }
}

std::unique_ptr<foghorn::Cluster> cluster_alone(const asio::any_io_executor& executor) {
  auto cluster = foghorn::Cluster::create(executor, nullptr, {});
  REQUIRE(cluster);
  return *std::move(cluster);
}

// Adds what a trigger needs to be valid, except for the text under test.
void complete(pb::MistTrigger& trigger) {
  auto name = [](std::string* text) {
    if (text->empty()) *text = "s";
  };
  switch (trigger.trigger_payload_case()) {
    case pb::MistTrigger::kViewerConnect:
      return name(trigger.mutable_viewer_connect()->mutable_stream_name());
    case pb::MistTrigger::kViewerDisconnect:
      return name(trigger.mutable_viewer_disconnect()->mutable_stream_name());
    case pb::MistTrigger::kStreamBuffer:
      return name(trigger.mutable_stream_buffer()->mutable_stream_name());
    case pb::MistTrigger::kStreamEnd:
      return name(trigger.mutable_stream_end()->mutable_stream_name());
    case pb::MistTrigger::kTrackList:
      return name(trigger.mutable_track_list()->mutable_stream_name());
    case pb::MistTrigger::kStreamLifecycleUpdate:
      return name(trigger.mutable_stream_lifecycle_update()->mutable_internal_name());
    case pb::MistTrigger::kNodeLifecycleUpdate: {
      auto& update = *trigger.mutable_node_lifecycle_update();
      if (update.has_artifacts())
        for (auto& item : *update.mutable_artifacts()->mutable_items())
          name(item.mutable_content_id());
      if (update.has_streams() && update.streams().by_name().contains("")) {
        auto& streams = *update.mutable_streams()->mutable_by_name();
        streams["s"] = streams[""];
        streams.erase("");
      }
      return;
    }
    case pb::MistTrigger::TRIGGER_PAYLOAD_NOT_SET:
      return name(trigger.mutable_stream_end()->mutable_stream_name());
  }
}

std::string text_for(const FieldDescriptor& field, std::size_t size) {
  bool is_url = field.name() == "request_url";
  std::string start = is_url ? "http://x/?fwcid=" : "";
  return start + std::string(size - start.size(), 'x');
}

}  // namespace

TEST_CASE("no text of a node is longer than its limit, whichever field of which message it is") {
  asio::io_context io;
  auto cluster = cluster_alone(io.get_executor());
  foghorn::Registration known;
  known.node_id = "n";
  REQUIRE(cluster->register_node(known));
  std::set<std::string> seen;
  auto digest = cluster->digest();
  auto refuses = [&](const FieldDescriptor& field, std::size_t size, const Put& put,
                     const std::function<Result<>()>& take) {
    CAPTURE(field.full_name());
    CAPTURE(size);
    put(text_for(field, size));
    auto taken = take();
    REQUIRE(!taken);
    CHECK(taken.error().code == Errc::invalid);
    CHECK(cluster->digest() == digest);
  };
  auto both = [&](const FieldDescriptor& field, const Put& put, const std::function<void()>& again,
                  const std::function<Result<>()>& take) {
    seen.insert(field.full_name());
    auto limit = longer.contains(field.full_name()) ? longer.at(field.full_name()) : 256;
    for (std::size_t size : {limit + 1, std::size_t{1} << 20}) {
      again();
      refuses(field, size, put, take);
    }
  };

  pb::Register registration;
  each_text(registration, [&](const FieldDescriptor& field, const Put& put) {
    auto again = [&] { registration.Clear(), registration.set_node_id("n"); };
    both(field, put, again, [&]() -> Result<> {
      return cluster->register_node(helmsman::registration_of(registration, "127.0.0.1"));
    });
  });
  pb::MistTrigger trigger;
  each_text(trigger, [&](const FieldDescriptor& field, const Put& put) {
    both(
        field, put, [] {},
        [&]() -> Result<> {
          pb::MistTrigger whole = trigger;
          complete(whole);
          return helmsman::apply(*cluster, "n", whole);
        });
  });
  for (const auto& [name, limit] : longer) CHECK_MESSAGE(seen.contains(name), name);
  CHECK(seen.size() > 40);
}
