//! TCP connections between the processes of a job.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{accept_with, socket_with, sockopt, AddressFamily, SocketFlags, SocketType};

use super::fork::CloseOnFork;
use errors::{Error, Result};

/// A connection.
pub type Connection = CloseOnFork<TcpStream>;

/// The length of the accept queue; the system may allow less.
const BACKLOG: i32 = 4096;
/// TCP keepalive: when an idle connection is probed, how often, and after how many unanswered probes it
/// is closed.
const IDLE: Duration = Duration::from_secs(10);
const BETWEEN_PROBES: Duration = Duration::from_secs(5);
const PROBES: u32 = 4;
/// Unacknowledged data closes the connection after this time.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Listens at each address of this host, the loopback last, on free ports.
///
/// # Errors
/// There is no address to listen at.
pub fn listen() -> Result<Vec<CloseOnFork<TcpListener>>> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut listeners = Vec::new();
    for ip in addresses()? {
        // An address that is not ready yet is not announced.
        match listen_at(ip) {
            Ok(listener) => listeners.push(listener),
            Err(error) => last = error,
        }
    }
    match listeners.is_empty() {
        true => Err(Error::system("listening for the other processes of the job", &last)),
        false => Ok(listeners),
    }
}

fn listen_at(ip: IpAddr) -> io::Result<CloseOnFork<TcpListener>> {
    let listener = CloseOnFork::new(|| TcpListener::bind((ip, 0)))?;
    let bound = listener.get()?;
    rustix::net::listen(bound, BACKLOG)?;
    bound.set_nonblocking(true)?;
    await_words(bound);
    Ok(listener)
}

/// Lets the kernel hold back new connections until data has arrived or some seconds have passed, so that
/// silent callers take no descriptor.
fn await_words(listener: &TcpListener) {
    let seconds: libc::c_int = 10;
    // SAFETY: an open socket, and an integer of the size that is said. Without this option, callers are
    // accepted before they have said something, no more.
    unsafe {
        libc::setsockopt(
            listener.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        );
    }
}

/// Accepts a connection, if there is one. Reading from it does not block.
///
/// # Errors
/// The system's; also if the listener was [stopped](stop).
pub fn accept(listener: &CloseOnFork<TcpListener>) -> io::Result<Option<Connection>> {
    let listener = listener.get()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // The call does not block, as processes may be forked meanwhile.
    match CloseOnFork::new(|| Ok(TcpStream::from(accept_with(listener, flags)?))) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Starts a connection, for [`await_connection`].
///
/// # Errors
/// The system's.
pub fn begin_connection(address: SocketAddr) -> io::Result<Connection> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    CloseOnFork::new(|| {
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
            Err(error) => Err(error.into()),
        }
    })
}

/// Waits until a connection is established, at most this long. Another thread ends the wait by shutting
/// it down.
///
/// # Errors
/// The system's; [`io::ErrorKind::TimedOut`].
pub fn await_connection(stream: &Connection, at_most: Duration) -> io::Result<()> {
    let since = Instant::now();
    loop {
        let left = at_most.saturating_sub(since.elapsed());
        let mut waited = [PollFd::new(stream, PollFlags::OUT)];
        match poll(&mut waited, Some(&timespec(left))) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let stream = stream.get()?;
    sockopt::socket_error(stream)??;
    // A connection that was shut down has no peer.
    stream.peer_addr()?;
    stream.set_nonblocking(false)
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// Wakes a thread that waits in `accept` or on a connection. A connection that has ended or was closed
/// by the application needs nothing.
pub fn stop<F: AsFd>(socket: &CloseOnFork<F>) {
    // On Linux this also ends a listener's wait, with an error.
    let _ = socket.get().map(|socket| rustix::net::shutdown(socket, rustix::net::Shutdown::Both));
}

/// Configures a connection so that the death of its peer or the peer's node is noticed, and that no call
/// waits longer than `patience`, if given.
///
/// # Errors
/// The system's.
pub fn watch(stream: &Connection, patience: Option<Duration>) -> io::Result<()> {
    let stream = stream.get()?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(patience)?;
    stream.set_write_timeout(patience)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, BETWEEN_PROBES)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED.as_millis() as u32)?;
    Ok(())
}

/// The addresses of this host for other nodes; the loopback comes last.
///
/// # Errors
/// The system's.
pub fn addresses() -> Result<Vec<IpAddr>> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: a pointer that is ours to write to.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(Error::errno("looking for the addresses of this host"));
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list ends with NULL, and lives until it is freed below.
    while let Some(interface) = unsafe { next.as_ref() } {
        next = interface.ifa_next;
        if interface.ifa_flags & libc::IFF_UP as libc::c_uint != 0 {
            // SAFETY: an entry of the list, which lives.
            found.extend(unsafe { address(interface.ifa_addr) });
        }
    }
    // SAFETY: made by getifaddrs, and not used any more.
    unsafe { libc::freeifaddrs(first) };
    found.sort_by_key(IpAddr::is_loopback);
    Ok(found)
}

/// An IPv4 address, or an IPv6 address that is not link-local.
///
/// # Safety
/// `address` is NULL or points to an address as long as its family says.
unsafe fn address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's promise; every address begins with its family.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: of this family, so it is that long. It need not be aligned for it.
            let found = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(IpAddr::from(found.sin_addr.s_addr.to_ne_bytes()))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let found = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let address = Ipv6Addr::from(found.sin6_addr.s6_addr);
            // A link-local address needs a scope.
            let local = address.segments()[0] & 0xffc0 == 0xfe80;
            (!local).then_some(IpAddr::V6(address))
        }
        _ => None,
    }
}

/// Identifies the processes that share a loopback interface, if possible.
pub fn loopback() -> Option<String> {
    let system = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {} {}", host_name(), system.trim(), namespace.display()))
}

/// This host's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Unpredictable random bytes.
///
/// # Errors
/// The system's.
pub fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    use std::io::Read as _;
    let mut bytes = [0; BYTES];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Error::system("reading /dev/urandom", &error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::wait_for;
    use std::io::{Read, Write};
    use std::thread;

    /// The next connection, and whether more will follow.
    fn next(listener: &CloseOnFork<TcpListener>) -> io::Result<Connection> {
        loop {
            wait_for(&[listener.as_fd()], Duration::from_secs(1));
            if let Some(stream) = accept(listener)? {
                stream.get()?.set_nonblocking(false)?;
                return Ok(stream);
            }
        }
    }

    #[test]
    fn this_host_is_reached_at_its_addresses_and_nowhere_else() {
        let listeners = listen().unwrap();
        let own: Vec<SocketAddr> =
            listeners.iter().map(|one| one.get().unwrap().local_addr().unwrap()).collect();
        assert!(own.iter().any(|address| address.ip().is_loopback()), "{own:?}");
        for (listener, address) in listeners.iter().zip(&own) {
            let stream = CloseOnFork::new(|| TcpStream::connect(address)).unwrap();
            watch(&stream, Some(Duration::from_secs(60))).unwrap();
            (&*stream).write_all(&[7]).unwrap();
            let mut byte = [0];
            let accepted = next(listener).unwrap();
            (&*accepted).read_exact(&mut byte).unwrap();
            assert_eq!(byte, [7]);
            assert!(!address.ip().is_unspecified());
        }
    }

    #[test]
    fn waiting_for_a_connection_can_be_ended() {
        let listeners = listen().unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| next(&listeners[0]).is_err());
            stop(&listeners[0]);
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn tokens_differ() {
        assert_ne!(random::<16>().unwrap(), random::<16>().unwrap());
    }
}
