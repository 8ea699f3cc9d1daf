#include "services/foghorn/state/merge.h"

#include <doctest/doctest.h>

using namespace warren::foghorn;

TEST_CASE("what identifies is filled where it is empty, and never erased or replaced") {
  StreamState known, incoming;
  known.tenant_id = "t", known.playback_id = "p", known.node_id = "n1";
  known.others["stream_id"] = "id";
  incoming.node_id = "n2", incoming.status = "live";
  CHECK(fill_identity(incoming, known));
  CHECK(incoming.tenant_id == "t");
  CHECK(incoming.playback_id == "p");
  CHECK(incoming.node_id == "n2");  // it moved
  CHECK(incoming.others.at("stream_id") == "id");
  CHECK(!fill_identity(incoming, known));

  NodeState node, empty;
  node.tenant_id = "t", node.cluster_id = "c", node.base_url = "u";
  CHECK(fill_identity(empty, node));
  CHECK(empty.tenant_id == "t");
  CHECK(empty.cluster_id == "c");
  CHECK(empty.base_url.empty());
  CHECK(!fill_identity(node, NodeState{}));

  StreamInstanceState told, bare;
  told.tenant_id = "t", told.buffer_state = "FULL";
  CHECK(fill_identity(bare, told));
  CHECK(bare.tenant_id == "t");
  CHECK(bare.buffer_state.empty());
  CHECK(!fill_identity(bare, told));
}

TEST_CASE("what a node has not said before all is loaded is as Redis has it") {
  StreamInstanceState said, stored;
  said.status = "live", said.buffer_state = "DRY";
  stored.buffer_state = "FULL", stored.last_track_list = "video", stored.tenant_id = "t";
  stored.viewers = 7;
  stored.raw_details["fps"] = 25;
  CHECK(fill_unsaid(said, stored));
  CHECK(said.buffer_state == "DRY");
  CHECK(said.last_track_list == "video");
  CHECK(said.tenant_id == "t");
  CHECK(said.raw_details == stored.raw_details);
  CHECK(said.viewers == 7);
  CHECK(!fill_unsaid(said, stored));

  StreamInstanceState offline;
  offline.status = "offline";
  CHECK(fill_unsaid(offline, stored));
  CHECK(offline.viewers == 0);  // nobody watches what is over
}

TEST_CASE("who has a copy is known by the instance that the node reports to") {
  auto is_own = [](const std::string& node) { return node == "own"; };
  ArtifactState ours, incoming;
  ours.type = "clip";
  ours.copies = {{"own", "/a", 1}, {"theirs", "/old", 1}};
  incoming.copies = {{"theirs", "/b", 2}, {"third", "/c", 3}};
  auto merged = merge_copies(ours, incoming, is_own);
  REQUIRE(merged.copies.size() == 3);
  CHECK(merged.copies[0].path == "/a");
  CHECK(merged.copies[1].path == "/b");
  CHECK(merged.type == "clip");
  CHECK(merged.copies != incoming.copies);  // so it is written back

  incoming.copies = {{"own", "/late", 1}};
  ours.copies.clear();
  CHECK(merge_copies(ours, incoming, is_own).copies.empty());
}
