//! What this process has sent and received, counted for each stream of messages.
//!
//! Messages from one process to another with one tag on one communicator do not overtake each
//! other: the `n`th sent is the `n`th for which a receive was posted. So both ends know a message by
//! its number, and never have to ask.
//!
//! While a part is open whose messages may be sent again, a journal has the counts before each
//! change, so that its end knows those at its beginning. Counts are of the whole job: what is under
//! way when a part begins makes the difference.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::report::{Entry, Kind, Report};
use super::table::{Index, Key};

/// Messages with one tag between this process and another, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// The communicator, by the number that all its processes have for it.
    pub comm: u64,
    /// The other process's number in `MPI_COMM_WORLD`.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
}

impl Key for Stream {
    #[inline]
    fn word(&self) -> u64 {
        self.comm ^ (u64::from(self.peer) << 32 | u64::from(self.tag as u32))
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The place of its stream among those of its direction.
    pub stream: u32,
    /// Its number in the stream.
    pub number: u64,
}

/// Which messages a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The communicator.
    pub comm: u64,
    /// The sender; `None`: any.
    pub peer: Option<u32>,
    /// The tag; `None`: any.
    pub tag: Option<i32>,
}

impl Pattern {
    #[inline]
    fn takes(&self, stream: &Stream) -> bool {
        self.comm == stream.comm
            && self.peer.is_none_or(|peer| peer == stream.peer)
            && self.tag.is_none_or(|tag| tag == stream.tag)
    }

    #[inline]
    fn stream(&self) -> Option<Stream> {
        Some(Stream { comm: self.comm, peer: self.peer?, tag: self.tag? })
    }
}

/// The order in which receives were posted.
type Order = u64;

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    order: Order,
    /// The place of its stream, or [`ANY`].
    place: u32,
}

impl Ticket {
    /// Whether the message has to say which stream it is of.
    #[inline]
    pub fn is_any(self) -> bool {
        self.place == ANY
    }
}

/// The place of the stream of a receive that may take one of several.
const ANY: u32 = u32::MAX;

/// Two counts of a stream or of collective calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Messages sent or received, or calls completed.
    messages: u64,
    /// Messages received or waited for by a receive that names the stream, or calls begun.
    other: u64,
}

#[derive(Debug)]
struct Counter<K> {
    key: K,
    counts: Counts,
    /// Sent and not completed.
    open: u64,
    /// When the receive of the last message that has come was posted.
    last: Order,
    /// The receives that name the stream and have received nothing yet, in order.
    waiting: VecDeque<Order>,
    /// The others have not been told of the counts.
    changed: bool,
    /// The last report that has looked at it.
    seen: u64,
}

#[derive(Debug)]
struct Side<K> {
    index: Index,
    counters: Vec<Counter<K>>,
}

impl<K> Default for Side<K> {
    fn default() -> Side<K> {
        Side { index: Index::default(), counters: Vec::new() }
    }
}

impl<K: Key> Side<K> {
    #[inline]
    fn place(&mut self, key: K) -> u32 {
        let found = self.index.find(&key, |place| &self.counters[place as usize].key);
        found.unwrap_or_else(|| self.add(key))
    }

    #[cold]
    fn add(&mut self, key: K) -> u32 {
        let place = self.counters.len() as u32;
        self.counters.push(Counter {
            key,
            counts: Counts::default(),
            open: 0,
            last: 0,
            waiting: VecDeque::new(),
            changed: false,
            seen: 0,
        });
        self.index.add(place, |place| &self.counters[place as usize].key);
        place
    }
}

/// Which table a change is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Outgoing,
    Incoming,
    Collective,
}

/// A change of a counter while a part is open.
#[derive(Clone, Copy, Debug)]
struct Change {
    table: Table,
    place: u32,
    before: Counts,
    /// The message is not to be sent again, if it was not posted after this ticket.
    posted: Order,
    /// So many messages must have been sent, if all that may lie before the one received do; or so
    /// many receives posted, as the one that was sent is known to have been received.
    reach: u64,
}

/// A communicator's collective calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Collective {
    comm: u64,
    size: u32,
}

impl Key for Collective {
    #[inline]
    fn word(&self) -> u64 {
        self.comm ^ u64::from(self.size)
    }
}

/// Where a part began.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    journal: usize,
    ticket: Order,
    unknown: u64,
    nth: u64,
}

impl Mark {
    /// How many parts whose messages may be sent again had begun before.
    pub fn nth(&self) -> u64 {
        self.nth
    }
}

/// All streams of this process.
#[derive(Debug, Default)]
pub struct Streams {
    outgoing: Side<Stream>,
    incoming: Side<Stream>,
    collective: Side<Collective>,
    tickets: Order,
    /// Receives that were posted for one of several streams and have received nothing yet.
    waiting: BTreeMap<Order, Pattern>,
    journal: Vec<Change>,
    open: u32,
    begun: u64,
    reports: u64,
    /// Messages of which it is not known which stream they are of.
    unknown: u64,
    is_miscounted: bool,
}

impl Streams {
    /// A message is sent. `again`: it can be sent again, as far as the kind of call goes.
    #[inline]
    pub fn sent(&mut self, stream: Stream, again: bool) -> Link {
        let place = self.outgoing.place(stream);
        let counter = &mut self.outgoing.counters[place as usize];
        let before = counter.counts;
        counter.counts.messages += 1;
        counter.open += 1;
        counter.changed = true;
        let posted = if again { Order::MAX } else { 0 };
        self.note(Table::Outgoing, place, before, posted, 0);
        Link { stream: place, number: before.messages }
    }

    /// The send of a message is completed. `buffered`: that says nothing of its receiver.
    #[inline]
    pub fn send_done(&mut self, link: Link, buffered: bool) {
        let place = link.stream;
        let Some(counter) = self.outgoing.counters.get_mut(place as usize) else { return };
        counter.open = counter.open.saturating_sub(1);
        let before = counter.counts;
        let reach = if buffered { 0 } else { link.number + 1 };
        self.note(Table::Outgoing, place, before, Order::MAX, reach);
    }

    /// A receive is posted.
    #[inline]
    pub fn posted(&mut self, pattern: Pattern) -> Ticket {
        self.tickets += 1;
        let order = self.tickets;
        let Some(stream) = pattern.stream() else { return self.posted_for_any(pattern) };
        let place = self.incoming.place(stream);
        let counter = &mut self.incoming.counters[place as usize];
        counter.waiting.push_back(order);
        let before = counter.counts;
        counter.counts.other += 1;
        counter.changed = true;
        self.note(Table::Incoming, place, before, Order::MAX, 0);
        Ticket { order, place }
    }

    #[cold]
    fn posted_for_any(&mut self, pattern: Pattern) -> Ticket {
        self.waiting.insert(self.tickets, pattern);
        Ticket { order: self.tickets, place: ANY }
    }

    /// A posted receive has got a message. `again`: it can be received again, as far as the kind of
    /// call goes. `stream`: which one it is of, if the receive does not say so.
    #[inline]
    pub fn received(
        &mut self,
        ticket: Ticket,
        stream: Option<Stream>,
        again: bool,
    ) -> Option<Link> {
        let order = ticket.order;
        if !ticket.is_any() {
            let (before_it, was_there) = self.no_longer_waits(ticket);
            return Some(self.arrived(order, ticket.place, before_it, was_there, again));
        }
        let place = self.incoming.place(stream?);
        self.waiting.remove(&order);
        Some(self.arrived(order, place, self.waits_before(place, order), false, again))
    }

    /// A receive that was posted in the same call has got a message. `again`: it can be received
    /// again, as far as the kind of call goes.
    #[inline]
    pub fn received_at_once(&mut self, stream: Stream, again: bool) -> Link {
        self.tickets += 1;
        let (order, place) = (self.tickets, self.incoming.place(stream));
        self.arrived(order, place, self.waits_before(place, order), false, again)
    }

    /// How many receives that name a stream were posted before another and wait still.
    #[inline]
    fn waits_before(&self, place: u32, order: Order) -> u64 {
        let waiting = &self.incoming.counters[place as usize].waiting;
        if waiting.is_empty() {
            return 0;
        }
        waiting.partition_point(|&other| other < order) as u64
    }

    /// A receive that names its stream is done: how many of these were posted before it and wait
    /// still, and whether it waited.
    #[inline]
    fn no_longer_waits(&mut self, ticket: Ticket) -> (u64, bool) {
        let waiting = &mut self.incoming.counters[ticket.place as usize].waiting;
        // Most are done in their order.
        if waiting.front() == Some(&ticket.order) {
            waiting.pop_front();
            return (0, true);
        }
        let at = waiting.binary_search(&ticket.order);
        if let Ok(at) = at {
            waiting.remove(at);
        }
        (at.unwrap_or_else(|at| at) as u64, at.is_ok())
    }

    /// A message of the stream at `place` has come. Of the receives that name the stream,
    /// `before_it` were posted before its own and wait still; `counted`: its own is one of those that
    /// name it.
    #[inline]
    fn arrived(
        &mut self,
        order: Order,
        place: u32,
        mut before_it: u64,
        counted: bool,
        again: bool,
    ) -> Link {
        let counter = &mut self.incoming.counters[place as usize];
        if !self.waiting.is_empty() {
            let earlier = self.waiting.range(..order);
            before_it += earlier.filter(|(_, other)| other.takes(&counter.key)).count() as u64;
        }
        let (before, number) = (counter.counts, counter.counts.messages);
        // Its number is in doubt if an earlier receive may get, or has got, an earlier message later.
        let is_doubtful = before_it > 0 || order < counter.last;
        counter.last = counter.last.max(order);
        counter.counts.messages += 1;
        counter.counts.other += u64::from(!counted);
        counter.changed = true;
        let posted = if is_doubtful || !again { 0 } else { order };
        self.note(Table::Incoming, place, before, posted, number + before_it + 1);
        Link { stream: place, number }
    }

    /// A posted receive has ended without a message.
    pub fn given_up(&mut self, ticket: Ticket) {
        if ticket.is_any() {
            self.waiting.remove(&ticket.order);
            return;
        }
        let (_, was_there) = self.no_longer_waits(ticket);
        if was_there {
            let counter = &mut self.incoming.counters[ticket.place as usize];
            let before = counter.counts;
            counter.counts.other = counter.counts.other.saturating_sub(1);
            counter.changed = true;
            self.note(Table::Incoming, ticket.place, before, Order::MAX, 0);
        }
    }

    /// A collective call on a communicator of so many processes begins.
    pub fn collective_begun(&mut self, comm: u64, size: u32) {
        let place = self.collective.place(Collective { comm, size });
        let counter = &mut self.collective.counters[place as usize];
        let before = counter.counts;
        counter.counts.other += 1;
        counter.changed = true;
        self.note(Table::Collective, place, before, Order::MAX, 0);
    }

    /// A collective call is completed.
    pub fn collective_done(&mut self, comm: u64, size: u32) {
        let place = self.collective.place(Collective { comm, size });
        let counter = &mut self.collective.counters[place as usize];
        let before = counter.counts;
        counter.counts.messages += 1;
        counter.changed = true;
        self.note(Table::Collective, place, before, Order::MAX, 0);
    }

    /// Something was sent or received that belongs to no stream that both ends know.
    pub fn unknown(&mut self) {
        self.unknown += 1;
    }

    /// A count is wrong from here on: nothing is sent again any more.
    pub fn miscounted(&mut self) {
        self.is_miscounted = true;
    }

    #[inline]
    fn note(&mut self, table: Table, place: u32, before: Counts, posted: Order, reach: u64) {
        if self.open > 0 {
            self.journal.push(Change { table, place, before, posted, reach });
        }
    }

    /// A part begins whose messages may be sent again.
    pub fn begin(&mut self) -> Mark {
        self.open += 1;
        let nth = self.begun;
        self.begun += 1;
        Mark { journal: self.journal.len(), ticket: self.tickets, unknown: self.unknown, nth }
    }

    /// Whether a part is open whose messages may be sent again.
    pub fn is_any_open(&self) -> bool {
        self.open > 0
    }

    /// A part ends without a report.
    pub fn forget(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.journal.clear();
        }
    }

    /// The part that has begun last ends: what the others have to know of it. A report of more than
    /// `room` entries says only that.
    pub fn end(&mut self, mark: Mark, room: usize) -> Report {
        self.reports += 1;
        let report = self.reports;
        let mut entries: Vec<(Table, u32, Entry)> = Vec::new();
        let mut places: HashMap<(u8, u32), usize> = HashMap::new();
        // Parts around this one still need it.
        let changes = self.journal[mark.journal..].to_vec();
        for change in &changes {
            let key = (change.table as u8, change.place);
            let at = *places.entry(key).or_insert_with(|| {
                self.seen(change.table, change.place, report);
                entries.push((change.table, change.place, self.entry(change)));
                entries.len() - 1
            });
            let entry = &mut entries[at].2;
            entry.untidy |= change.posted <= mark.ticket;
            match change.table {
                Table::Outgoing => entry.other = entry.other.max(change.reach),
                Table::Incoming => entry.end = entry.end.max(change.reach),
                Table::Collective => {}
            }
        }
        // What has changed outside the part, and nobody knows yet.
        for table in [Table::Outgoing, Table::Incoming, Table::Collective] {
            for place in self.unreported(table, report) {
                let before = self.counts(table, place);
                let change = Change { table, place, before, posted: Order::MAX, reach: 0 };
                entries.push((table, place, self.entry(&change)));
            }
        }
        let mut report = Report {
            needed: entries.len() as u64,
            is_known: self.unknown == mark.unknown && !self.is_miscounted,
            entries: Vec::new(),
        };
        if entries.len() <= room {
            for (table, place, entry) in entries {
                self.told(table, place);
                report.entries.push(entry);
            }
        }
        self.forget();
        report
    }

    fn seen(&mut self, table: Table, place: u32, report: u64) {
        let place = place as usize;
        match table {
            Table::Outgoing => self.outgoing.counters[place].seen = report,
            Table::Incoming => self.incoming.counters[place].seen = report,
            Table::Collective => self.collective.counters[place].seen = report,
        }
    }

    fn told(&mut self, table: Table, place: u32) {
        let place = place as usize;
        match table {
            Table::Outgoing => self.outgoing.counters[place].changed = false,
            Table::Incoming => self.incoming.counters[place].changed = false,
            Table::Collective => self.collective.counters[place].changed = false,
        }
    }

    fn counts(&self, table: Table, place: u32) -> Counts {
        let place = place as usize;
        match table {
            Table::Outgoing => self.outgoing.counters[place].counts,
            Table::Incoming => self.incoming.counters[place].counts,
            Table::Collective => self.collective.counters[place].counts,
        }
    }

    fn unreported(&self, table: Table, report: u64) -> Vec<u32> {
        fn those<K>(side: &Side<K>, report: u64) -> Vec<u32> {
            let is_due = |counter: &Counter<K>| counter.changed && counter.seen != report;
            (0..).zip(&side.counters).filter(|(_, c)| is_due(c)).map(|(place, _)| place).collect()
        }
        match table {
            Table::Outgoing => those(&self.outgoing, report),
            Table::Incoming => those(&self.incoming, report),
            Table::Collective => those(&self.collective, report),
        }
    }

    /// An entry of the counts now, beside those before the first change in the part.
    fn entry(&self, first: &Change) -> Entry {
        let place = first.place as usize;
        let mut entry = Entry { begin: first.before.messages, ..Entry::default() };
        let now = self.counts(first.table, first.place);
        (entry.end, entry.other) = (now.messages, now.other);
        let of_stream = |entry: &mut Entry, kind, stream: &Stream| {
            (entry.kind, entry.comm, entry.peer, entry.tag) =
                (kind, stream.comm, stream.peer, stream.tag);
        };
        match first.table {
            Table::Outgoing => {
                let counter = &self.outgoing.counters[place];
                of_stream(&mut entry, Kind::Sent, &counter.key);
                // Some that were sent inside may be completed after its end.
                entry.untidy = counter.open > 0;
            }
            Table::Incoming => {
                of_stream(&mut entry, Kind::Received, &self.incoming.counters[place].key);
            }
            Table::Collective => {
                let key = self.collective.counters[place].key;
                (entry.kind, entry.comm, entry.peer) = (Kind::Collective, key.comm, key.size);
            }
        }
        entry
    }

    /// The place of a stream to another process.
    pub fn outgoing(&mut self, stream: Stream) -> u32 {
        self.outgoing.place(stream)
    }

    /// The place of a stream from another process.
    pub fn incoming(&mut self, stream: Stream) -> u32 {
        self.incoming.place(stream)
    }
}
