#pragma once
// One connection of an HttpPool.
#include <memory>
#include <string>

#include "net/http/body.h"
#include "redis/connection/transport.h"

namespace warren {

class HttpLink final : public HttpWire {
 public:
  HttpLink(std::unique_ptr<redis::Transport> transport, Clock::duration piece_time);

  std::string_view arrived() const override;
  void consume(std::size_t bytes) override;
  Async<bool> more() override;
  Async<> send(std::string_view bytes) override;

  // Starts the next call. Until its answer begins, only the deadline counts.
  void begin(Clock::time_point deadline);
  // From now on the server may be silent for one piece_time.
  void expect_body() { read_time_ = piece_time_; }
  // From now on it may be silent for any time.
  void lift_deadline() { deadline_ = Clock::time_point::max(); }
  // Whether it is open and has no unread bytes, as it should be between two calls.
  bool is_fresh();
  bool is_reused() const { return is_reused_; }
  Clock::time_point used_at() const { return used_at_; }

 private:
  Clock::time_point patience(Clock::duration time) const;
  void make_room();

  std::unique_ptr<redis::Transport> transport_;
  Clock::duration piece_time_;
  Clock::duration read_time_ = Clock::duration::max();
  Clock::time_point deadline_ = {};
  Clock::time_point used_at_ = {};
  std::string in_;
  std::size_t begin_ = 0, end_ = 0;
  bool is_reused_ = false;
};

}  // namespace warren
