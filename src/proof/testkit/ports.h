#pragma once

namespace warren::inline testkit {

// A free port of 127.0.0.1 that no other test, in this process or another, gets while this object
// exists.
//
// It lies below the range from which the kernel takes the ports of outgoing connections, and is
// locked by an abstract unix socket, which needs no file and dies with its process. Rejected:
// binding to port 0 and letting go, because any connection may take the port before the server.
class Port {
 public:
  Port();
  ~Port();
  Port(Port&& other) noexcept;
  Port& operator=(Port&& other) noexcept;

  unsigned short number() const { return number_; }

 private:
  int lock_ = -1;
  unsigned short number_ = 0;
};

}  // namespace warren::inline testkit
